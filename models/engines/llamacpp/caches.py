"""llama.cpp's caches: what each holds, in cells and bytes (llama-kv-cache*.cpp, 0.3.36).

A model has at most a full cache and a window cache, each with all its layers, one of indexer keys,
and a recurrent one; DeepSeek-V4 has others (compressed.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from kvplan.models.engines.layers import Architecture, Attention, Latent, Recurrent
from kvplan.models.engines.llamacpp.architectures import ROLLBACK, known_as, seen_layers
from kvplan.models.engines.llamacpp.compressed import (
    compressed_caches,
    compressed_layers,
    compressor_states,
)
from kvplan.models.engines.llamacpp.flags import (
    Context,
    context_of,
    is_flash_off,
    sequences_of,
)
from kvplan.models.engines.llamacpp.offload import first_cached
from kvplan.models.engines.llamacpp.records import StateCache, TokenCache
from kvplan.models.engines.llamacpp.rows import ROW_TYPES, row_bytes
from kvplan.models.errors import InvalidProblem

STATE_BYTES = 4  # states are f32 whatever the cache types


def token_caches(architecture: Architecture, settings: Mapping[str, Any]) -> list[TokenCache]:
    """Caches of keys and values, the full one first.

    Raises
    ------
    InvalidProblem : an architecture that the engine does not know, or types that it refuses (blocks
        that do not divide a head, unequal types with MLA).
    """
    kept = seen_layers(architecture)
    _check(architecture, settings)
    if compressed_layers(architecture):
        return list(compressed_caches(architecture, settings))
    context = context_of(architecture, settings)
    layers = [one for one in kept if isinstance(one, Attention | Latent)]
    start = first_cached(architecture, settings)
    full = [one for one in layers if not _reach(one)]
    window = [one for one in layers if _reach(one)]
    caches = []
    for name, members in (("full", full), ("window", window)):
        if members:
            caches.append(_cache(name, members, layers, context, start, settings))
    owners = [one for one in layers if one.index_dim]
    if owners:
        caches.append(_index_cache(owners, context, start, settings))
    return caches


def _index_cache(
    owners: Sequence[Attention | Latent], context: Context, start: int, settings: Mapping[str, Any]
) -> TokenCache:
    """Keys of the indexers; beside heads a value of one head, too (llama-kv-cache-msa.cpp).

    Nothing reads those values: the cache is made with the model's own value size and one head.
    """
    rows = [row_bytes(settings["cache_type_k"], one.index_dim) for one in owners]
    values = [_index_value_bytes(one, settings) for one in owners]
    above = [one.index < start for one in owners]
    cells, streams = context.cells, context.streams
    return TokenCache(
        *("index", 0, len(owners), cells, streams, sum(rows), sum(values)),
        host_key_bytes=sum(compress(rows, above)),
        host_value_bytes=sum(compress(values, above)),
    )


def _index_value_bytes(layer: Attention | Latent, settings: Mapping[str, Any]) -> int:
    if isinstance(layer, Latent):
        return 0
    return row_bytes(settings["cache_type_v"], layer.value_dim)


def _reach(layer: Attention | Latent) -> int:
    return (layer.window or layer.chunk or 0) if isinstance(layer, Attention) else 0


def _cache(
    name: str,
    members: Sequence[Attention | Latent],
    layers: Sequence[Attention | Latent],
    context: Context,
    start: int,
    settings: Mapping[str, Any],
) -> TokenCache:
    """Build a cache; without flash attention values are padded to the widest layer's row."""
    reach = max(map(_reach, members))
    cells = context.cells
    if reach and not settings["swa_full"]:
        cells = context.window_cells(reach)
    widest = max(map(_value_values, layers)) if is_flash_off(settings) else 0
    keys = [row_bytes(settings["cache_type_k"], _key_values(one)) for one in members]
    values = [
        row_bytes(settings["cache_type_v"], max(widest, wide)) if wide else 0
        for wide in map(_value_values, members)
    ]
    cache = TokenCache(name, reach, len(members), cells, context.streams, sum(keys), sum(values))
    above = [one.index < start for one in members]
    return replace(
        cache,
        host_key_bytes=sum(compress(keys, above)),
        host_value_bytes=sum(compress(values, above)),
        widest_row_bytes=max(*keys, *values),
    )


def layer_row_bytes(layer: Attention | Latent, settings: Mapping[str, Any]) -> int:
    """Bytes of one cell of one layer: keys and values, and an indexer's key."""
    wide, index = _value_values(layer), layer.index_dim
    values = row_bytes(settings["cache_type_v"], wide) if wide else 0
    keys = row_bytes(settings["cache_type_k"], _key_values(layer))
    if not index:
        return keys + values
    own = row_bytes(settings["cache_type_k"], index) + _index_value_bytes(layer, settings)
    return keys + values + own


def layer_state_bytes(layer: Recurrent) -> int:
    """Bytes of one sequence's state in one layer, f32."""
    return sum(_state_values(layer)) * STATE_BYTES


def _key_values(layer: Attention | Latent) -> int:
    """Values of a key row; MLA keeps latent + rope as one key and no value."""
    if isinstance(layer, Latent):
        return layer.latent_dim + layer.rope_dim
    return layer.kv_heads * layer.key_dim


def _value_values(layer: Attention | Latent) -> int:
    return layer.kv_heads * layer.value_dim if isinstance(layer, Attention) else 0


def _check(architecture: Architecture, settings: Mapping[str, Any]) -> None:
    key, value = settings["cache_type_k"], settings["cache_type_v"]
    if any(isinstance(one, Latent) for one in architecture.layers) and key != value:
        raise InvalidProblem.at("--cache-type-v", f"{key}, as of the keys (MLA)", value)
    for layer in architecture.target:
        if isinstance(layer, Attention):
            row_bytes(key, layer.key_dim)
            row_bytes(value, layer.value_dim)
    if ROW_TYPES[value].values > 1 and is_flash_off(settings):
        expected = "flash attention, which quantised values need"
        raise InvalidProblem.at("--flash-attn", expected, "off")


def state_cache(architecture: Architecture, settings: Mapping[str, Any]) -> StateCache | None:
    """Build the cache of states; None without recurrent layers.

    f32 rows: conv (K - 1) x channels, recurrent heads x head_dim x state_dim, 1 + n_rs_seq of each
    for a sequence. The log counts all layers of the model.
    """
    if compressed_layers(architecture):
        return compressor_states(architecture, settings)
    layers = [one for one in architecture.target if isinstance(one, Recurrent)]
    if not layers:
        return None
    sizes = [_state_values(one) for one in layers]
    conv, recurrent = (sum(side) for side in zip(*sizes, strict=True))
    start = first_cached(architecture, settings)
    host = sum(compress(map(sum, sizes), [one.index < start for one in layers]))
    rolls = known_as(architecture) in ROLLBACK
    rows = 1 + (int(settings["draft_max"]) if rolls else 0)
    sequences, count = sequences_of(settings), architecture.total_layers
    cache = StateCache(count, sequences, rows, conv * STATE_BYTES, recurrent * STATE_BYTES)
    return replace(cache, host_bytes=host * STATE_BYTES)


def _state_values(layer: Recurrent) -> tuple[int, int]:
    """Values of a layer's convolution and of its recurrent state."""
    taps = max(0, layer.conv_kernel - 1)
    return taps * layer.conv_channels, layer.heads * layer.head_dim * layer.state_dim
