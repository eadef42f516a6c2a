"""Buffers of a model's layers in KVCacheManagerV2: one for each role of a layer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

from kvplan.models.engines.layers import (
    DTYPE_BITS,
    Architecture,
    Attention,
    Latent,
    Layer,
    Recurrent,
)
from kvplan.models.engines.partitions import first_ones
from kvplan.models.engines.states import state_tensors
from kvplan.models.engines.trtllm.cycles import LayerBuffers
from kvplan.models.engines.trtllm.flags import ELEMENT_BITS
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown

SCALE_VALUES = 16  # values that share one byte of scale in nvfp4
INDEX_QUANTUM, SCALE_BYTES = 128, 4


def buffers_of(architecture: Architecture, settings: Mapping[str, Any]) -> list[LayerBuffers]:
    """Write each layer's buffers of one block on one rank.

    Raises
    ------
    InvalidProblem : a kind of layer that this adapter does not know.
    """
    stage, count = widest_stage(architecture, settings)
    members = stage_layers(architecture, settings, count)[stage]
    return [_layer(one, architecture, settings) for one in members]


def stage_layers(
    architecture: Architecture, settings: Mapping[str, Any], stages: int
) -> list[tuple[Layer, ...]]:
    """Layers of each pipeline stage: alike, the first `layers mod stages` with one more.

    Drafts lie on the last (Mapping.pp_layers).
    """
    drafts = architecture.draft if settings["num_speculative_tokens"] else ()
    sizes = first_ones(architecture.total_layers, stages)
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    found = [
        tuple(layer for layer in architecture.target if low <= layer.index < high)
        for low, high in bounds
    ]
    return [*found[:-1], (*found[-1], *drafts)]


def widest_stage(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[int, int]:
    """Stage whose layers take the most bytes of a block, and the count of stages.

    Raises
    ------
    InvalidProblem : no stage, or more than layers.
    """
    count = int(settings["pp_size"])
    if not 0 < count <= max(1, architecture.total_layers):
        expected = f"from 1 to {architecture.total_layers} stages"
        raise InvalidProblem.at("--pp_size", expected, shown(settings["pp_size"]))
    sizes = [
        sum(sum(_layer(one, architecture, settings).buffers) for one in members)
        for members in stage_layers(architecture, settings, count)
    ]
    return sizes.index(max(sizes)), count


def _layer(layer: Layer, architecture: Architecture, settings: Mapping[str, Any]) -> LayerBuffers:
    """Keys and values apart, with a scale buffer each in nvfp4; one buffer for a latent.

    A sparse indexer's keys (fp8 and 4 bytes of scale for 128) are a buffer more; conv and recurrent
    state are one each. Chunked local attention keeps all tokens.
    """
    block = int(settings["tokens_per_block"])
    if isinstance(layer, Attention):
        heads = layer.heads_of_rank(int(settings["tp_size"]))
        sides = (heads * layer.key_dim, heads * layer.value_dim)
        sizes = [size for values in sides for size in _rows(block * values, settings)]
        return LayerBuffers(tuple(sizes), window=layer.window)
    if isinstance(layer, Latent):
        sizes = _rows(block * (layer.latent_dim + layer.rope_dim), settings)
        if layer.index_dim:
            scales = layer.index_dim // INDEX_QUANTUM * SCALE_BYTES
            sizes.append(block * (layer.index_dim + scales))
        return LayerBuffers(tuple(sizes))
    if isinstance(layer, Recurrent):
        return LayerBuffers(_state(layer, architecture, settings), state=True)
    expected = "a model without compressed layers (DeepSeek-V4)"
    raise InvalidProblem.at("--engine tensorrt-llm", expected, architecture.name)


def _rows(values: int, settings: Mapping[str, Any]) -> list[int]:
    """Bytes of so many values, and of their scales in a buffer of its own (nvfp4)."""
    bits = ELEMENT_BITS[settings["kv_cache_dtype"]]
    scales = [values // SCALE_VALUES] if bits == ELEMENT_BITS["nvfp4"] else []
    return [values * bits // 8, *scales]


def _state(
    layer: Recurrent, architecture: Architecture, settings: Mapping[str, Any]
) -> tuple[int, ...]:
    model = architecture.dtype or "bfloat16"
    word = settings["mamba_ssm_cache_dtype"]
    word = (layer.state_dtype or model) if word == "auto" else word
    if word not in DTYPE_BITS:
        raise InvalidProblem.at("--mamba_ssm_cache_dtype", one_of(DTYPE_BITS, word), shown(word))
    ranks, drafts = int(settings["tp_size"]), int(settings["num_speculative_tokens"])
    tensors = state_tensors(layer, ranks, drafts, conv_dtype=model, state_dtype=word)
    return tuple(tensor.bytes for tensor in reversed(tensors))
