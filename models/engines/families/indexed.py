"""Attention by head whose sparse layers keep a key of an indexer a token: MiniMax-M3."""

from __future__ import annotations

from dataclasses import replace

from kvplan.models.engines.families.attention import attention
from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

KINDS = ("full_attention", "minimax_m3_sparse", "indexed_attention")


def minimax_m3(fields: Fields) -> list[Layer]:
    """MiniMax-M3: layers of sparse_attention_freq have an indexer; MTP modules have one, too.

    sparse_attention_config says which and how wide (sparse_index_dim); without a list none has.
    transformers 5.19 saves index_head_dim and layer_types (full_attention is dense).
    """
    fields.require("num_hidden_layers", "num_key_value_heads", "head_dim")
    sparse, dim = _sparse(fields)
    layers = fields.layers
    drafts = fields.count("num_mtp_modules", 0)
    return [
        replace(
            attention(fields, index, draft=index >= layers),
            index_dim=dim if index >= layers or index in sparse else 0,
        )
        for index in range(layers + drafts)
    ]


def _sparse(fields: Fields) -> tuple[set[int], int]:
    """Layers with an indexer, and elements of its key."""
    if fields.has("sparse_attention_config"):
        config = fields.inner("sparse_attention_config")
        if not config.has("sparse_attention_freq"):
            return set(), config.count("sparse_index_dim", 128, least=1)
        listed = config.counts("sparse_attention_freq", fields.layers)
        found = {index for index, freq in enumerate(listed) if freq}
        return found, config.count("sparse_index_dim", least=1)
    fields.require("layer_types", "index_head_dim")
    kinds = fields.items("layer_types", fields.layers)
    for index, kind in enumerate(kinds):
        if kind not in KINDS:
            where = f"{fields.path}.layer_types[{index}]"
            raise InvalidProblem.at(where, " or ".join(KINDS), shown(kind))
    found = {index for index, kind in enumerate(kinds) if kind != "full_attention"}
    return found, fields.count("index_head_dim", least=1)
