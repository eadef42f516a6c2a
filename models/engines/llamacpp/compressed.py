"""DeepSeek-V4 in llama.cpp (llama-kv-cache-dsv4.cpp): keys alone, in four caches, and states.

Every layer has a window of latent keys; layers of ratio 4 and 128 have compressed rows beside it,
those of ratio 4 indexer keys as well. The compressors keep their running sums in f32. Every
sequence has its own buffers, also when unified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture, Compressed
from kvplan.models.engines.llamacpp.architectures import ROLLBACK, known_as
from kvplan.models.engines.llamacpp.flags import Context, context_of, padded, sequences_of
from kvplan.models.engines.llamacpp.offload import first_cached
from kvplan.models.engines.llamacpp.records import StateCache, TokenCache
from kvplan.models.engines.llamacpp.rows import row_bytes
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

NEAR, FAR = 4, 128  # tokens of a compressed row
F32, TENSORS = 4, 2  # a compressor keeps sums and scores


def compressed_layers(architecture: Architecture) -> list[Compressed]:
    """Compressed layers of the target."""
    return [one for one in architecture.target if isinstance(one, Compressed)]


def compressed_caches(
    architecture: Architecture, settings: Mapping[str, Any]
) -> tuple[TokenCache, ...]:
    """Window, rows of each ratio, and indexer keys; a cell of ratio r is pad256(ceil(n / r))."""
    if first_cached(architecture, settings):
        expected = "all layers on the device (DeepSeek-V4's partly on the host is not modelled)"
        raise InvalidProblem.at("--n-gpu-layers", expected, shown(settings["n_gpu_layers"]))
    context, word = context_of(architecture, settings), settings["cache_type_k"]
    layers = compressed_layers(architecture)
    head = {one.index: row_bytes(word, one.latent_dim + one.rope_dim) for one in layers}
    window = max(one.window for one in layers)
    cells = context.cells if settings["swa_full"] else context.window_cells(window)
    keys = sum(head.values())
    caches = [TokenCache("window", window, len(layers), cells, context.streams, keys, 0)]
    for ratio in (NEAR, FAR):
        members = [one for one in layers if one.ratio == ratio]
        rows = sum(head[one.index] for one in members)
        caches += _every(f"ratio {ratio}", ratio, len(members), rows, context)
    owners = [one for one in layers if one.index_dim]
    keys = sum(row_bytes(word, one.index_dim) for one in owners)
    caches += _every("index", NEAR, len(owners), keys, context)
    return tuple(caches)


def _every(name: str, ratio: int, layers: int, keys: int, context: Context) -> list[TokenCache]:
    if not layers:
        return []
    cells = padded(-(-context.cells // ratio))
    return [TokenCache(name, 0, layers, cells, context.streams, keys, 0, ratio)]


def compressor_states(architecture: Architecture, settings: Mapping[str, Any]) -> StateCache:
    """Sums and scores of the compressors, f32.

    Ratio 4: 8 rows of two heads, and 8 of two indexer keys; ratio 128: 128 rows of a head.
    """
    rows = 0
    for one in compressed_layers(architecture):
        if one.ratio == NEAR:
            rows += 2 * NEAR * 2 * (one.latent_dim + one.rope_dim + one.index_dim)
        elif one.ratio == FAR:
            rows += FAR * (one.latent_dim + one.rope_dim)
    kept = 1 + (int(settings["draft_max"]) if known_as(architecture) in ROLLBACK else 0)
    count = architecture.total_layers
    return StateCache(count, sequences_of(settings), kept, 0, TENSORS * rows * F32)
