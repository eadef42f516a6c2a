"""Attention whose inputs and outputs pass short convolutions: Inkling."""

from __future__ import annotations

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Attention, Convolved, Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def inkling(fields: Fields) -> list[Layer]:
    """Inkling: local_layer_ids slide, with heads of their own; each layer convolves four streams.

    A head keeps its key, its value and its share of the attention's and the MLP's output:
    2 head_dim + 2 hidden_size / heads elements, rounded up to a power of two. Draft layers are not
    read. (vllm/models/inkling/nvidia/{attention,sconv_swa_attn}.py.)

    Raises
    ------
    InvalidProblem : a field that is missing; vLLM takes every layer for full without
        local_layer_ids, whatever layer_types says.
    """
    fields.require(
        *("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size"),
        *("local_layer_ids", "sliding_window_size"),
    )
    local = set(fields.counts("local_layer_ids"))
    for index, kind in enumerate(fields.items("layer_types") if fields.has("layer_types") else []):
        expected = "hybrid_sliding" if index in local else "hybrid"
        if kind != expected:
            where = f"{fields.path}.layer_types[{index}]"
            raise InvalidProblem.at(where, f"{expected}, by local_layer_ids", shown(kind))
    window = fields.count("sliding_window_size", least=1)
    taps = fields.count("sconv_kernel_size", fields.count("conv_kernel_size", 4), least=1)
    heads, dim = fields.kv_heads, fields.head_dim
    own_heads = fields.count("swa_num_key_value_heads", heads, least=1)
    own_dim = fields.count("swa_head_dim", dim, least=1)
    layers: list[Layer] = []
    for index in range(fields.layers):
        slides = index in local
        each, width = (own_heads, own_dim) if slides else (heads, dim)
        reach = window if slides else None
        layers.append(Attention(index, "window" if slides else "full", each, width, width, reach))
        layers.append(Convolved(index, each, _packed(fields, each, width), taps))
    return layers


def _packed(fields: Fields, heads: int, dim: int) -> int:
    """Elements of a head's four streams, the least power of two that holds them."""
    hidden = fields.count("hidden_size", least=1)
    if hidden % heads:
        where = f"{fields.path}.hidden_size"
        raise InvalidProblem.at(where, f"a multiple of {heads} KV heads", str(hidden))
    return 1 << (2 * dim + 2 * hidden // heads - 1).bit_length()
