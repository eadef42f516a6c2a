"""Models that mix attention with states: Mamba, GDN, KDA, linear attention, convolutions."""

from __future__ import annotations

from kvplan.models.engines.families.attention import (
    FULL,
    attention,
    layer_kinds,
)
from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.families.latent import latent
from kvplan.models.engines.layers import Layer, Recurrent
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

_RENAMED = {"linear_attention": "mamba", "full_attention": "attention"}
"""Kinds of layers as transformers 5.19 saves them."""
_PATTERN = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}


def mamba2(fields: Fields, index: int, heads: int, head_dim: int, **names: str) -> Recurrent:
    """Make one Mamba-2 layer: conv over d_inner + 2 x groups x d_state channels.

    names : what this config calls groups, state, kernel and chunk.
    """
    groups = fields.count(names["groups"], least=1)
    state = fields.count(names["state"], least=1)
    dtype = fields.dtype("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    return Recurrent(
        index,
        "mamba2",
        heads=heads,
        head_dim=head_dim,
        state_dim=state,
        groups=groups,
        conv_kernel=fields.count(names["kernel"], least=1),
        conv_channels=heads * head_dim + 2 * groups * state,
        state_dtype=dtype,
        chunk=fields.count(names["chunk"], 0),
    )


def nemotron_h(fields: Fields) -> list[Layer]:
    """Nemotron-H: layers_block_type, or hybrid_override_pattern (M state, * attention, E and -).

    Draft layers are those of mtp_layers_block_type that attend, num_nextn_predict_layers times.
    """
    fields.require("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")
    names = {"groups": "n_groups", "state": "ssm_state_size", "kernel": "conv_kernel"}
    heads, dim = fields.count("mamba_num_heads", least=1), fields.count("mamba_head_dim", least=1)
    _check_nemotron_width(fields)
    layers: list[Layer] = []
    kinds = _nemotron_kinds(fields)
    for index, kind in enumerate(kinds):
        if kind == "mamba":
            layers.append(mamba2(fields, index, heads, dim, chunk="chunk_size", **names))
        elif kind == "attention":
            layers.append(attention(fields, index))
        elif kind not in ("moe", "mlp"):
            where = f"{fields.path}.layers_block_type[{index}]"
            raise InvalidProblem.at(where, "mamba, attention, moe or mlp", shown(kind))
    drafts = fields.count("num_nextn_predict_layers", 0)
    block = fields.items("mtp_layers_block_type") if fields.has("mtp_layers_block_type") else []
    attends = sum(kind in ("attention", "full_attention") for kind in block)
    start = len(kinds)
    drafted = range(start, start + drafts * attends)
    return [*layers, *(attention(fields, index, draft=True) for index in drafted)]


def _check_nemotron_width(fields: Fields) -> None:
    """Hold attention_head_dim, the name of Nemotron-H's own checkpoints, to head_dim.

    vLLM 0.33 and SGLang 0.5.23 look at head_dim alone (128 where it is missing); llama.cpp's
    converter takes the other name in its place. Only where both agree do all serve one width.
    """
    width = fields.head_dim
    if fields.count("attention_head_dim", width, least=1) != width:
        where, got = f"{fields.path}.attention_head_dim", fields.raw("attention_head_dim")
        raise InvalidProblem.at(where, f"{width}, as head_dim (128 without it)", shown(got))


def _nemotron_kinds(fields: Fields) -> list[str]:
    if fields.has("layers_block_type"):
        kinds = [str(kind) for kind in fields.items("layers_block_type")]
        return [_RENAMED.get(kind, kind) for kind in kinds]
    fields.require("hybrid_override_pattern")
    pattern = fields.word("hybrid_override_pattern")
    unknown = sorted(set(pattern) - set(_PATTERN))
    if unknown:
        where = f"{fields.path}.hybrid_override_pattern"
        raise InvalidProblem.at(where, "letters M, *, E and -", shown(unknown[0]))
    return [_PATTERN[letter] for letter in pattern]


def _mixed(
    fields: Fields, kinds: list[str], heads: int, head_dim: int, *, both: bool = False
) -> list[Layer]:
    """Layers by kind; both: every layer has a state and attention side by side."""
    names = {
        "groups": "mamba_n_groups",
        "state": "mamba_d_state",
        "kernel": "mamba_d_conv",
        "chunk": "mamba_chunk_size",
    }
    layers: list[Layer] = []
    for index, kind in enumerate(kinds):
        if both or kind == "mamba":
            layers.append(mamba2(fields, index, heads, head_dim, **names))
        if both or kind != "mamba":
            layers.append(attention(fields, index, kind))
    return layers


def granite_hybrid(fields: Fields) -> list[Layer]:
    """Granite-4 hybrid: layer_types of mamba and attention."""
    fields.require("layer_types", "mamba_n_heads", "mamba_d_head", "mamba_n_groups")
    heads, dim = fields.count("mamba_n_heads", least=1), fields.count("mamba_d_head", least=1)
    kinds = [_RENAMED.get(kind, kind) for kind in layer_kinds(fields) or []]
    return _mixed(fields, kinds, heads, dim)


def bamba(fields: Fields) -> list[Layer]:
    """Bamba: attn_layer_indices attend, the others are states."""
    fields.require("mamba_n_heads", "mamba_d_head", "mamba_n_groups")
    listed = fields.has("attn_layer_indices")
    attends = set(fields.counts("attn_layer_indices")) if listed else set()
    kinds = ["attention" if i in attends else "mamba" for i in range(fields.layers)]
    heads, dim = fields.count("mamba_n_heads", least=1), fields.count("mamba_d_head", least=1)
    return _mixed(fields, kinds, heads, dim)


def falcon_h1(fields: Fields) -> list[Layer]:
    """Falcon-H1: a state and attention in every layer."""
    fields.require("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state")
    heads, dim = fields.count("mamba_n_heads", least=1), fields.count("mamba_d_head", least=1)
    return _mixed(fields, [FULL] * fields.layers, heads, dim, both=True)


def mamba1(fields: Fields, index: int) -> Recurrent:
    """Make one Mamba-1 layer (Jamba's names): d_inner = mamba_expand x hidden_size."""
    inner = fields.count("mamba_expand", least=1) * fields.count("hidden_size", least=1)
    return Recurrent(
        index,
        "mamba1",
        heads=1,
        head_dim=inner,
        state_dim=fields.count("mamba_d_state", least=1),
        groups=0,
        conv_kernel=fields.count("mamba_d_conv", least=1),
        conv_channels=inner,
    )


def jamba(fields: Fields) -> list[Layer]:
    """Jamba: layer i attends where i % attn_layer_period == attn_layer_offset."""
    fields.require("attn_layer_period", "attn_layer_offset", "mamba_expand", "mamba_d_state")
    period, offset = fields.count("attn_layer_period", least=1), fields.count("attn_layer_offset")
    return [
        attention(fields, index) if index % period == offset else mamba1(fields, index)
        for index in range(fields.layers)
    ]


def kimi_linear(fields: Fields) -> list[Layer]:
    """Kimi-Linear, Kimi-K3: KDA states and MLA.

    linear_attn_config lists both, counted from 1; transformers 5.19 saves layer_types and linear_*.
    """
    fields.require("kv_lora_rank", "qk_rope_head_dim")
    if fields.has("linear_attn_config") or not fields.has("linear_num_heads"):
        linear = fields.inner("linear_attn_config")
        linear.require("kda_layers", "num_heads", "head_dim", "short_conv_kernel_size")
        states = {place - 1 for place in linear.counts("kda_layers")}
        heads, dim = linear.count("num_heads", least=1), linear.count("head_dim", least=1)
        kernel = linear.count("short_conv_kernel_size", least=1)
    else:
        fields.require("layer_types", "linear_num_heads", "linear_head_dim")
        kinds = layer_kinds(fields) or []
        states = {index for index, kind in enumerate(kinds) if kind == "linear_attention"}
        heads = fields.count("linear_num_heads", least=1)
        dim = fields.count("linear_head_dim", least=1)
        kernel = fields.count("linear_conv_kernel_dim", least=1)
    layers: list[Layer] = []
    for index in range(fields.layers):
        if index in states:
            layers.append(
                Recurrent(index, "kda", heads, dim, dim, heads, kernel, 3 * heads * dim, "float32")
            )
        else:
            layers.append(latent(fields, index))
    drafts = range(fields.layers, fields.layers + fields.count("num_nextn_predict_layers", 0))
    return [*layers, *(latent(fields, index, draft=True) for index in drafts)]


def minimax_text(fields: Fields) -> list[Layer]:
    """MiniMax-Text-01, M1: attn_type_list with 0 for linear attention, else layer_types."""
    fields.require("num_attention_heads")
    heads, dim = fields.count("num_attention_heads", least=1), fields.head_dim
    if fields.has("attn_type_list") or not fields.has("layer_types"):
        fields.require("attn_type_list", "head_dim")
        full = fields.counts("attn_type_list", fields.layers)[: fields.layers]
    else:
        full = [int(kind == FULL) for kind in layer_kinds(fields) or []]
    return [
        attention(fields, index)
        if attends
        else Recurrent(index, "linear", heads, dim, dim, 0, 0, 0, "float32")
        for index, attends in enumerate(full)
    ]


def lfm2(fields: Fields) -> list[Layer]:
    """LFM-2: short convolutions of conv_L_cache taps over hidden_size, beside full attention."""
    fields.require("layer_types", "conv_L_cache", "hidden_size")
    taps, width = fields.count("conv_L_cache", least=1), fields.count("hidden_size", least=1)
    if fields.count("conv_dim", width) != width:  # vLLM's width; SGLang takes hidden_size
        expected = f"{width}, the hidden_size (engines differ)"
        raise InvalidProblem.at(f"{fields.path}.conv_dim", expected, shown(fields.raw("conv_dim")))
    layers: list[Layer] = []
    for index, kind in enumerate(layer_kinds(fields) or []):
        if kind == "conv":
            layers.append(Recurrent(index, "short_conv", 0, 0, 0, 0, taps, width))
        elif kind == FULL:
            layers.append(attention(fields, index))
        else:  # another word is a convolution to vLLM's class
            where = f"{fields.path}.layer_types[{index}]"
            raise InvalidProblem.at(where, f"conv or {FULL}", shown(kind))
    return layers
