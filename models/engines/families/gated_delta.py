"""Gated delta nets beside attention: Qwen3-Next, 3.5, 3.6, 4-Exp, OLMo hybrid."""

from __future__ import annotations

from kvplan.models.engines.families.attention import FULL, attention, every, layer_kinds, nextn
from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Layer, Recurrent
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def gated_delta_net(fields: Fields, index: int) -> Recurrent:
    """Make one GDN layer: conv over 2 x key heads x key dim + value heads x value dim channels."""
    keys = fields.count("linear_num_key_heads", least=1)
    key_dim = fields.count("linear_key_head_dim", least=1)
    values = fields.count("linear_num_value_heads", least=1)
    value_dim = fields.count("linear_value_head_dim", least=1)
    return Recurrent(
        index,
        "gdn",
        heads=values,
        head_dim=value_dim,
        state_dim=key_dim,
        groups=keys,
        conv_kernel=fields.count("linear_conv_kernel_dim", least=1),
        conv_channels=2 * keys * key_dim + values * value_dim,
        state_dtype=fields.dtype("mamba_ssm_dtype"),
    )


_SPARSE = ("indexed_attention", "qwen_sparse_attention")
_SPARSE_FIELDS = ("indexer_n_heads", "ple_layer_ids")
"""Of Qwen4-Exp: an indexer with a ring of keys, and n-gram embeddings with states of their own."""


def qwen4_exp(fields: Fields) -> list[Layer]:
    """Qwen4-Exp without an indexer: GDN, and full attention in its sparse layers.

    Raises
    ------
    InvalidProblem : an indexer, or layers with n-gram embeddings: their caches are not modelled.
    """
    for name in _SPARSE_FIELDS:
        if fields.raw(name):
            where, expected = f"{fields.path}.{name}", "none (its caches are not modelled)"
            raise InvalidProblem.at(where, expected, shown(fields.raw(name)))
    fields.pass_over("ple_conv_kernel_size")
    fields.require("layer_types")
    kinds = [FULL if kind in _SPARSE else kind for kind in layer_kinds(fields) or []]
    return qwen_hybrid(fields.replaced(layer_types=kinds))


def qwen_hybrid(fields: Fields) -> list[Layer]:
    """Qwen3-Next, 3.5, 3.6: GDN, with full attention in each full_attention_interval-th layer."""
    fields.require(
        "num_hidden_layers",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
    )
    kinds = layer_kinds(fields)
    if kinds is None:
        interval = fields.count("full_attention_interval", least=1)
        kinds = every(fields, interval, kind=FULL, other="linear_attention")
    layers: list[Layer] = [
        gated_delta_net(fields, index)
        if kind == "linear_attention"
        else attention(fields, index, kind)
        for index, kind in enumerate(kinds)
    ]
    drafts = fields.count("mtp_num_hidden_layers", fields.count("num_nextn_predict_layers", 0))
    return [*layers, *nextn(fields, drafts)]
