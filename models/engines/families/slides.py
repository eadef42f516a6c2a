"""Windows with rules of their own beside full layers: MiMo-V2, Step-3.5, PLaMo-3, loops."""

from __future__ import annotations

from kvplan.models.engines.families.attention import (
    FULL,
    WINDOW,
    attention,
    every,
    layer_kinds,
    plain,
)
from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Attention, Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def mimo_v2(fields: Fields) -> list[Layer]:
    """MiMo-V2: hybrid_layer_pattern with 1 for a window, whose fields begin with swa_."""
    fields.require(
        "hybrid_layer_pattern", "num_key_value_heads", "head_dim", "swa_num_key_value_heads"
    )
    pattern = fields.counts("hybrid_layer_pattern", fields.layers)[: fields.layers]
    heads, dim = fields.kv_heads, fields.head_dim
    values = fields.count("v_head_dim", dim, least=1)
    own_heads = fields.count("swa_num_key_value_heads", least=1)
    own_dim = fields.count("swa_head_dim", dim, least=1)
    own_values = fields.count("swa_v_head_dim", own_dim, least=1)
    name = "sliding_window_size" if fields.has("sliding_window_size") else "sliding_window"
    window = fields.count(name, least=1)
    return [
        Attention(index, "window", own_heads, own_dim, own_values, window=window)
        if slides
        else Attention(index, "full", heads, dim, values)
        for index, slides in enumerate(pattern)
    ]


def looped(fields: Fields) -> list[Layer]:
    """IQuest-Coder Loop: each layer runs loop_num (2) times, with a cache for each.

    All but the first time it sees loop_window_size (64) tokens.
    (vllm/model_executor/models/iquest_loopcoder.py.)
    """
    fields.require("num_hidden_layers", "num_attention_heads")
    loops = fields.count("loop_num", 2, least=1)
    window = fields.count("loop_window_size", 64, least=1)
    heads, dim = fields.kv_heads, fields.head_dim
    return [
        Attention(index, "window", heads, dim, dim, window=window)
        if loop
        else Attention(index, "full", heads, dim, dim)
        for index in range(fields.layers)
        for loop in range(loops)
    ]


def plamo3(fields: Fields) -> list[Layer]:
    """PLaMo-3: windows of window_size, but in each sliding_window_pattern-th layer."""
    if fields.has("interleaved_sliding_window"):
        fields.pass_over("window_size", "sliding_window_pattern")
        return plain(fields)
    fields.require("num_hidden_layers", "window_size", "sliding_window_pattern")
    interval = fields.count("sliding_window_pattern", least=1)
    kinds = layer_kinds(fields) or every(fields, interval, kind=FULL, other=WINDOW)
    windowed = fields.replaced(sliding_window=fields.count("window_size", least=1))
    return [attention(windowed, index, kind) for index, kind in enumerate(kinds)]


def step3p5(fields: Fields) -> list[Layer]:
    """Step-3.5, 3.7: num_attention_groups KV heads; layer_types goes on over the MTP layers."""
    fields.require("layer_types", "num_hidden_layers", "head_dim")
    layers, dim = fields.layers, fields.head_dim
    heads = fields.count("num_attention_groups", fields.kv_heads, least=1)
    drafts = fields.count("num_nextn_predict_layers", 0)
    kinds = [str(kind) for kind in fields.items("layer_types", layers)]
    if fields.has("mtp_layer_types"):
        kinds = [*(layer_kinds(fields) or []), *map(str, fields.items("mtp_layer_types"))]
    kinds += [FULL] * (layers + drafts - len(kinds))
    return [
        _layer(fields, index, kind, heads, dim, draft=index >= layers)
        for index, kind in enumerate(kinds[: layers + drafts])
    ]


def _layer(
    fields: Fields, index: int, kind: str, heads: int, dim: int, *, draft: bool
) -> Attention:
    if kind == FULL:
        return Attention(index, "full", heads, dim, dim, draft=draft)
    if kind != WINDOW:
        where = f"{fields.path}.layer_types[{index}]"
        raise InvalidProblem.at(where, f"{FULL} or {WINDOW}", shown(kind))
    window = fields.count("sliding_window", least=1)
    if fields.has("attention_other_setting"):  # the windows' own
        other = fields.inner("attention_other_setting")
        heads = other.count("num_attention_groups", heads, least=1)
        dim = other.count("head_dim", dim, least=1)
    return Attention(index, "window", heads, dim, dim, window=window, draft=draft)
