"""Attention alike in every layer whose KV heads go by a name of their own."""

from __future__ import annotations

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Attention, Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def _alike(fields: Fields, heads: int, dim: int) -> list[Layer]:
    return [Attention(index, "full", heads, dim, dim) for index in range(fields.layers)]


def _queries(fields: Fields) -> int:
    return fields.count("num_attention_heads", least=1)


def multi_query(fields: Fields) -> list[Layer]:
    """GPT-BigCode: one KV head with multi_query, else as many as query heads."""
    fields.require("num_hidden_layers", "num_attention_heads")
    heads = 1 if fields.switch("multi_query", default=True) else _queries(fields)
    fields.pass_over("num_key_value_heads")
    said = fields.given.get("num_key_value_heads", heads)
    if said != heads:
        where = f"{fields.path}.num_key_value_heads"
        raise InvalidProblem.at(where, f"{heads}, by multi_query", shown(said))
    return _alike(fields, heads, fields.head_dim)


def falcon(fields: Fields) -> list[Layer]:
    """Falcon: num_kv_heads in the new decoder, else one with multi_query, else the query heads."""
    fields.require("num_hidden_layers", "num_attention_heads")
    fields.pass_over("num_kv_heads")
    if fields.switch("new_decoder_architecture"):
        heads = fields.count("num_kv_heads", _queries(fields), least=1)
    else:
        heads = 1 if fields.switch("multi_query", default=True) else _queries(fields)
    return _alike(fields, heads, fields.head_dim)


def nested(fields: Fields) -> list[Layer]:
    """DBRX, MPT: attn_config.kv_n_heads."""
    fields.require("num_hidden_layers", "num_attention_heads")
    heads = _queries(fields)
    fields.pass_over("num_key_value_heads")
    if fields.has("attn_config"):
        heads = fields.inner("attn_config").count("kv_n_heads", heads, least=1)
    return _alike(fields, heads, fields.head_dim)


def jetmoe(fields: Fields) -> list[Layer]:
    """JetMoE: KV heads of kv_channels elements; its query heads are mixed like experts."""
    fields.require("num_hidden_layers", "num_key_value_heads", "kv_channels")
    return _alike(fields, fields.kv_heads, fields.count("kv_channels", least=1))


def hrm(fields: Fields) -> list[Layer]:
    """HRM-Text: a stack runs H_cycles x (L_cycles + 1) times, each with caches of its own.

    Raises
    ------
    InvalidProblem : num_hidden_layers that says another count.
    """
    fields.require("num_layers_per_stack", "H_cycles", "L_cycles", "num_attention_heads")
    cycles = fields.count("H_cycles", least=1) * (fields.count("L_cycles", least=1) + 1)
    count = fields.count("num_layers_per_stack", least=1) * cycles
    if fields.layers != count:
        where = f"{fields.path}.num_hidden_layers"
        expected = f"{count}, of stacks and cycles"
        raise InvalidProblem.at(where, expected, str(fields.layers))
    return _alike(fields, _queries(fields), fields.head_dim)


def step1(fields: Fields) -> list[Layer]:
    """Step-1: num_attention_groups KV heads, one without the field."""
    fields.require("num_hidden_layers", "num_attention_heads")
    return _alike(fields, fields.count("num_attention_groups", 1, least=1), fields.head_dim)


def step3(fields: Fields) -> list[Layer]:
    """Step-3: query heads that share one KV head (Step3TextAttention refuses more).

    Raises
    ------
    InvalidProblem : more groups.
    """
    fields.require("num_hidden_layers", "head_dim")
    if fields.count("num_attention_groups", 1) != 1:
        where = f"{fields.path}.num_attention_groups"
        raise InvalidProblem.at(where, "1", shown(fields.raw("num_attention_groups")))
    return _alike(fields, 1, fields.head_dim)


def chatglm(fields: Fields) -> list[Layer]:
    """ChatGLM, GLM-4 of 2024: multi_query_group_num KV heads of kv_channels elements."""
    fields.require("num_hidden_layers", "num_attention_heads")
    heads = _queries(fields)
    if fields.switch("multi_query_attention"):
        heads = fields.count("multi_query_group_num", least=1)
    return _alike(fields, heads, fields.count("kv_channels", fields.head_dim, least=1))
