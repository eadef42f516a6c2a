"""What SGLang 0.5.23 leaves to others than its pools, and the ranges where nobody measured it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.estimates import Estimate
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.sglang.launch.flags import chunk_tokens, replicas

MIB, GIB = 2**20, 2**30
LARGE_CARD_BYTES, FLOOR_MIB = 60 * GIB, 10 * 1024
CONTEXT, RESERVE = "context", "activations and graphs"
ESTIMATED = " (estimated)"
_CONTEXTS = {1: (600, 400, 800), 2: (2048, 800, 3200)}
"""MiB (with least and most) of the CUDA context and its libraries; with several ranks of NCCL, too.

A card's total less "Load weight begin. avail mem": 0.6 GiB of 48 GB (sgl-project/sglang#15426); 1.0
of RTX PRO 6000, TP4 (#40558); 2.3 to 2.5 of H200, TP8 (#11716); 2.5 to 3.1 of B200, TP8 (#5390).
"""
_GRAPHS = ((20, 8, 8), (35, 48, 160), (60, 32, 160), (160, 256, 512))
"""Cards below so many GiB, and the largest decode graph with fewer than 4 ranks, and with more."""
_LARGEST_GRAPH, _PREFILL_GRAPHS_MIB = 512, 1536
VISION = "ForConditionalGeneration"


def context_estimate(settings: Mapping[str, Any]) -> Estimate:
    """Bytes that are gone before the first reading, as the share of the memory charges them."""
    share = settings["mem_fraction_static"]
    scale = MIB * Fraction(share if share is not None else 1)
    size, least, most = (-int(-figure * scale // 1) for figure in _context(settings))
    return Estimate(CONTEXT, "--free-before-load", size, least, most)


def context_bytes(settings: Mapping[str, Any]) -> int:
    """Bytes of the context as they are."""
    return _context(settings)[0] * MIB


def _context(settings: Mapping[str, Any]) -> tuple[int, int, int]:
    return _CONTEXTS[1 if ranks_of(settings) == 1 else 2]


def ranks_of(settings: Mapping[str, Any]) -> int:
    """GPUs of the engine."""
    return int(settings["tp_size"]) * int(settings["pp_size"])


def reserve_estimate(total: int, settings: Mapping[str, Any]) -> Estimate:
    """Slack behind the default share: without its graph terms, and with the most that they add."""
    least = reserve_bytes(total, settings)
    most = reserve_bytes(total, settings, graphs_mib(total, settings))
    return Estimate(RESERVE, "--mem-fraction-static", least, least, most)


def reserve_bytes(total: int, settings: Mapping[str, Any], graphs: int = 0) -> int:
    """Slack behind the default share, in MiB: 512 + 1.5 x max(chunk, 2048) + 128 x tp x pp.

    Without chunks --max-prefill-tokens stands for one.

    At least 10 GiB on cards above 60 GiB (memory_hook.py of 0.5.23; its graph terms, which depend
    on the batch sizes that are captured, are `graphs`).
    """
    chunk = max(chunk_tokens(settings) or int(settings["max_prefill_tokens"]), 2048)
    reserve = 512 + chunk * 3 // 2 + 128 * ranks_of(settings) + graphs
    return MIB * (max(reserve, FLOOR_MIB) if total > LARGE_CARD_BYTES else reserve)


def graphs_mib(total: int, settings: Mapping[str, Any]) -> int:
    """Most that graphs add (reserve_for_graph_mb).

    2 MiB for each request of the largest decode graph, with DP attention 4.5 more a replica;
    1.5 GiB for those of the prefill (MLA; others take 8 MiB a size, which is less).
    """
    many = int(settings["tp_size"]) >= 4
    sizes = (most if many else few for gib, few, most in _GRAPHS if total < gib * GIB)
    largest = next(sizes, _LARGEST_GRAPH)
    padding = largest * replicas(settings) * 9 // 2 if settings["enable_dp_attention"] else 0
    return 2 * largest + padding + _PREFILL_GRAPHS_MIB


def vision_lines(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What an image encoder takes off the default share (adjust_mem_fraction_for_vlm)."""
    derived = settings["mem_fraction_static"] is None and not settings["available"]
    if not derived or not architecture.name.endswith(VISION):
        return ()
    why = "the default falls by 0 to 24 % with the size of an image encoder; not charged"
    return (f"--mem-fraction-static: {why} (SGLang 0.5.23)",)
