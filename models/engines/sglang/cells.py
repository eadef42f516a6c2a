"""Bytes a token of SGLang's pools (pool_configurator.py of 0.5.23).

A cell is what one token takes over all layers of a rank. Full and window layers are apart, since
they lie in two pools; a model whose class is not on the engine's list keeps its window layers in
full, with the geometry of the full ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from kvplan.models.engines.cards import chip_of
from kvplan.models.engines.layers import Architecture, Attention, Compressed, Latent, Layer
from kvplan.models.engines.partitions import last_ones
from kvplan.models.engines.sglang.launch.flags import attention_ranks, element_bytes
from kvplan.models.engines.sglang.launch.speculation import (
    algorithm_of,
    dflash_layers,
    draft_layers,
)
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

TWO_POOLS = {
    "Llama4ForConditionalGeneration",
    "GptOssForCausalLM",
    "GraniteSWAForCausalLM",
    "GraniteMoeSWAForCausalLM",
    "MiMoV2FlashForCausalLM",
    "MiMoV2ForCausalLM",
    "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration",
    "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration",
    "Gemma4UnifiedForConditionalGeneration",
    "LagunaForCausalLM",
}
"""Classes whose window layers have a pool of their own (is_hybrid_swa_model of 0.5.23)."""

QUANTUM = 128  # elements that share one fp32 scale in a DSA cache
ROPE_BYTES = 2  # rope elements of an fp8 DSA row stay bf16


@dataclass(frozen=True)
class Cells:
    """Bytes a token on one pipeline stage.

    Attributes
    ----------
    full, window : of all full and of all window layers of the stage, drafts included.
    keys, values : parts of `full` (values 0 for MLA, whose row is not split); the target's alone.
    window_keys : part of `window`; the rest are its values.
    """

    full: int
    window: int
    keys: int
    values: int
    window_keys: int = 0


def stage_bounds(layers: int, stages: int) -> list[tuple[int, int]]:
    """Layers of each pipeline stage: alike, the last `layers mod stages` with one more."""
    return bounds_of(last_ones(layers, stages))


def bounds_of(counts: Sequence[int]) -> list[tuple[int, int]]:
    """First layer of each stage, and the first behind it."""
    return list(pairwise(accumulate(counts, initial=0)))


def stage_counts(architecture: Architecture, settings: Mapping[str, Any]) -> list[int]:
    """Layers of each pipeline stage: what was given, or the engine's own share.

    Raises
    ------
    InvalidProblem : a partition of another count of stages or layers.
    """
    layers, stages = architecture.total_layers, int(settings["pp_size"])
    given = settings["pp_layer_partition"]
    if given is None:
        return last_ones(layers, stages)
    parts = [int(part) for part in str(given).split(",") if part.strip().isdecimal()]
    if len(parts) != stages or sum(parts) != layers:
        expected = f"{stages} counts that sum to {layers}"
        raise InvalidProblem.at("--pp-layer-partition", expected, shown(given))
    return parts


def stage_layers(
    architecture: Architecture, settings: Mapping[str, Any]
) -> list[tuple[Layer, ...]]:
    """Target layers that keep something, by pipeline stage."""
    return [
        tuple(layer for layer in architecture.target if low <= layer.index < high)
        for low, high in bounds_of(stage_counts(architecture, settings))
    ]


def has_window_pool(architecture: Architecture, settings: Mapping[str, Any]) -> bool:
    """Whether window layers have a pool of their own."""
    if architecture.name not in TWO_POOLS or settings["disable_hybrid_swa_memory"]:
        return False
    return any(_reach(layer) for layer in architecture.target)


def window_tokens(architecture: Architecture) -> int:
    """sliding_window_size: the window, or the chunk of chunked local attention."""
    return max(_reach(layer) for layer in architecture.target)


def _reach(layer: Layer) -> int:
    return (layer.window or layer.chunk or 0) if isinstance(layer, Attention) else 0


def cells(architecture: Architecture, settings: Mapping[str, Any]) -> list[Cells]:
    """Cells of each pipeline stage.

    Raises
    ------
    InvalidProblem : a kind of cache that this adapter does not know.
    """
    _check(architecture)
    apart = has_window_pool(architecture, settings)
    drafts = draft_layers(architecture, settings)
    found = []
    for layers in stage_layers(architecture, settings):
        tokens = [layer for layer in layers if isinstance(layer, Attention | Latent)]
        windows = [layer for layer in tokens if apart and _reach(layer)]
        full = [layer for layer in tokens if not (apart and _reach(layer))]
        keys, values = _sides(full, architecture, settings)
        index = sum(indexer_bytes(layer) for layer in full) * int(settings["dcp_size"])
        element = element_bytes(architecture, settings)
        draft = _draft_bytes(full, keys + values, drafts, element, settings)
        sides = _sides(windows, architecture, settings)
        full_bytes = keys + values + index + draft
        found.append(Cells(full_bytes, sum(sides), keys + index, values, sides[0]))
    return found


def layer_bytes(layer: Layer, architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Bytes a token of one layer that keeps all tokens."""
    index = indexer_bytes(layer) * int(settings["dcp_size"])
    return sum(_sides([layer], architecture, settings)) + index


def _check(architecture: Architecture) -> None:
    if any(isinstance(layer, Compressed) for layer in architecture.layers):
        expected = "a model without compressed layers (DeepSeek-V4's pools follow other rules)"
        raise InvalidProblem.at("--engine sglang", expected, architecture.name)


def _sides(
    layers: Sequence[Layer], architecture: Architecture, settings: Mapping[str, Any]
) -> tuple[int, int]:
    """Bytes a token of keys and of values.

    MHA: heads x (Dk + Dv) x layers x element; window layers that lie in the full pool take the
    head sizes of its full layers. MXFP8 adds one byte of scale for 32 elements.
    """
    element = element_bytes(architecture, settings)
    scale = 32 if settings["kv_cache_dtype"] == "mxfp8" else 0
    keys = values = 0
    model = next((one for one in layers if isinstance(one, Attention) and not _reach(one)), None)
    sparse = any(indexer_bytes(layer) for layer in architecture.target)
    for layer in layers:
        if isinstance(layer, Latent):
            keys += latent_bytes(layer, element, sparse, settings)
        elif isinstance(layer, Attention):
            shape = model if model and _reach(layer) else layer
            heads = kv_heads(shape, settings)
            one, other = heads * shape.key_dim, heads * shape.value_dim
            keys += one * element + (one // scale if scale else 0)
            values += other * element + (other // scale if scale else 0)
    return keys, values


def kv_heads(layer: Attention, settings: Mapping[str, Any]) -> int:
    """KV heads on one rank: max(1, heads // (ranks // dcp)); context ranks hold the same heads."""
    return layer.heads_of_rank(attention_ranks(settings) // int(settings["dcp_size"]))


def latent_bytes(layer: Latent, element: int, sparse: bool, settings: Mapping[str, Any]) -> int:
    """Bytes of a latent row (calculate_mla_kv_cache_dim).

    (latent + rope) x element: 576 in fp8. A sparse indexer and fp8_e4m3: latent + 4 bytes of scale
    for 128 elements + the rope part in bf16 = 656, unless the backend takes plain rows.
    """
    if sparse and settings["kv_cache_dtype"] == "fp8_e4m3" and not takes_plain_rows(settings):
        scales = layer.latent_dim // QUANTUM * 4
        return layer.latent_dim + scales + layer.rope_dim * ROPE_BYTES
    return (layer.latent_dim + layer.rope_dim) * element


def takes_plain_rows(settings: Mapping[str, Any]) -> bool:
    """Whether the sparse backends store fp8 rows without scales.

    trtllm on either side, tilelang on both; on ROCm triton, tilelang and aiter on either.
    """
    sides = {settings["dsa_prefill_backend"], settings["dsa_decode_backend"]}
    if "trtllm" in sides or sides == {"tilelang"}:
        return True
    return chip_of(settings.get("gpu")).is_amd and bool(sides & {"triton", "tilelang", "aiter"})


def indexer_bytes(layer: Layer) -> int:
    """Bytes of an indexer's key: fp8 + 4 bytes of scale for 128 elements (132), owners only."""
    if not isinstance(layer, Latent):
        return 0
    return layer.index_dim + layer.index_dim // QUANTUM * 4


def _draft_bytes(
    layers: Sequence[Layer], rows: int, drafts: int, element: int, settings: Mapping[str, Any]
) -> int:
    """Bytes a token of the draft: floor(rows x draft layers / layers), as if it had their shape.

    With a sparse indexer every draft layer owns one, and both parts count once a context rank. A
    DFLASH draft has a shape of its own, once a context rank (dflash_draft_cell_size_per_token).
    """
    if not drafts or not layers:
        return 0
    if algorithm_of(settings) == "DFLASH":
        own = [one for one in dflash_layers(settings) if isinstance(one, Attention)]
        sides = sum(kv_heads(one, settings) * (one.key_dim + one.value_dim) for one in own)
        return sides * element * int(settings["dcp_size"])
    shared = rows * drafts // len(layers)
    index = max(indexer_bytes(layer) for layer in layers)
    ranks = int(settings["dcp_size"]) if index else 1
    return (shared + index * drafts) * ranks
