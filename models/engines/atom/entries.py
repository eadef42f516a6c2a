"""Bytes of ATOM's pool entries: a block of tokens, and a request's state (plan_pools)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.models.engines.atom.flags import ELEMENT_BYTES, block_tokens, kept_layers
from kvplan.models.engines.layers import (
    Architecture,
    Attention,
    Compressed,
    Latent,
    Layer,
    Recurrent,
)
from kvplan.models.engines.states import state_tensors

SCALE_BYTES = 4  # fp32, of K and of V, for each head and token
INDEX_ALIGN = 16
ROW_BYTES = {"fp8": 640, "bf16": 1024, "auto": 1024}
"""A latent row of DeepSeek-V4: 512 fp8 + 64 rope in bf16, or 512 in bf16."""
INDEX_ROW_BYTES = {"fp8": 132, "fp4": 68}
FP32 = 4
PAIR = 2  # key-value sums and their scores
OVERLAP_RATIO = 4  # rows of this ratio overlap: twice the rows, twice the width


def block_bytes(
    architecture: Architecture, settings: Mapping[str, Any], layers: Iterable[Layer] | None = None
) -> int:
    """Bytes of one block on one rank, the layers of a stage or all of them.

    MHA     block x heads x ((Dk + Dv) x element + 2 x 4): fp32 scales are charged for bf16, too;
            windows are paged in full
    MLA     block x (latent + rope) x element, and block x align16(index + 4) where it owns an index
    V4      (block / ratio) x row for each compressed layer, and x index row of the overlapping ones
    """
    members = kept_layers(architecture, settings) if layers is None else layers
    block = block_tokens(architecture, settings)
    return sum(_layer_bytes(layer, block, settings) for layer in members)


def _layer_bytes(layer: Layer, block: int, settings: Mapping[str, Any]) -> int:
    element = ELEMENT_BYTES[settings["kv_cache_dtype"]]
    if isinstance(layer, Attention):
        heads = layer.heads_of_rank(int(settings["tensor_parallel_size"]))
        row = (layer.key_dim + layer.value_dim) * element + 2 * SCALE_BYTES
        return block * heads * row
    if isinstance(layer, Latent):
        index = -(-(layer.index_dim + SCALE_BYTES) // INDEX_ALIGN) * INDEX_ALIGN
        row = (layer.latent_dim + layer.rope_dim) * element
        return block * (row + (index if layer.index_dim else 0))
    if isinstance(layer, Compressed) and layer.ratio:
        index_row = INDEX_ROW_BYTES[settings["index_dtype"]] if layer.index_dim else 0
        return block // layer.ratio * (ROW_BYTES[settings["kv_cache_dtype"]] + index_row)
    return 0


def compressor_bytes(layers: Iterable[Layer]) -> int:
    """Bytes of DeepSeek-V4's compressors of one request: fp32 pairs of the open rows.

    ratio x dim x 2 x 4; overlapping rows (ratio 4) take twice the rows at twice the width, their
    indexer alike.
    """
    total = 0
    for layer in layers:
        if isinstance(layer, Compressed) and layer.ratio:
            wide = 4 if layer.ratio == OVERLAP_RATIO else 1
            dims = layer.latent_dim + layer.rope_dim + layer.index_dim
            total += layer.ratio * wide * dims * PAIR * FP32
    return total


def ring_bytes(layers: Iterable[Layer], settings: Mapping[str, Any]) -> int:
    """Bytes of the window ring of one request: (window + draft tokens) rows of every layer."""
    row, drafts = ROW_BYTES[settings["kv_cache_dtype"]], int(settings["num_speculative_tokens"])
    return sum((one.window + drafts) * row for one in layers if isinstance(one, Compressed))


def state_bytes(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Bytes of one state entry on one rank; 0 without states.

    GDN, KDA    (K - 1 + drafts) x channels / tp in the model's dtype, and heads / tp x D x Dk, in
                fp32 for KDA, in the model's dtype for the others
    V4          compressors in whole rows, and the window ring
    """
    layers = kept_layers(architecture, settings)
    drafts, model = int(settings["num_speculative_tokens"]), architecture.dtype or "bfloat16"
    ranks, total = int(settings["tensor_parallel_size"]), 0
    for layer in layers:
        if isinstance(layer, Recurrent):
            word = "float32" if layer.recurrence == "kda" else model
            tensors = state_tensors(layer, ranks, drafts, conv_dtype=model, state_dtype=word)
            total += sum(tensor.bytes for tensor in tensors)
    row = ROW_BYTES[settings["kv_cache_dtype"]]
    rows = -(-compressor_bytes(layers) // row) * row
    return total + rows + ring_bytes(layers, settings)


def entries_of_request(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """State entries of a request: one for each draft token more; one with ReplaySSM or in V4."""
    recurrent = any(isinstance(layer, Recurrent) for layer in architecture.target)
    if not recurrent or settings["replay_ssm"]:
        return 1
    return 1 + int(settings["num_speculative_tokens"])
