"""DeepSeek-V4 in SGLang (DSV4PoolConfigurator of 0.5.23): one token id space over four pools.

A full token has a row for every 4 (and every 128) tokens, and an indexer row beside the former; a
window token has a row in every layer and its share of the compressors' rings. The compressors of
ratio 128 keep a ring a request, which is charged first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture, Compressed, Layer
from kvplan.models.engines.sglang.budget import rank_entries, rest_bytes
from kvplan.models.engines.sglang.cells import stage_layers
from kvplan.models.engines.sglang.launch.context import context_tokens
from kvplan.models.engines.sglang.launch.flags import (
    chunk_tokens,
    draft_tokens,
    estimated_requests,
    ratio_rule,
    swa_ratio,
    wanted_requests,
)
from kvplan.models.engines.sglang.window_demand import request_tokens, shared_tokens
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown
from kvplan.models.problem import Problem

NEAR, FAR = 4, 128  # tokens of a compressed row
SCALE_BYTES = 8  # of a latent row: one a 64 values, and padding
PAGE_ALIGN = 576
FP32, PAIR = 4, 2
PREFIX_TAILS = 4  # cached prefixes a request that the capped window pool keeps room for


@dataclass(frozen=True)
class Rates:
    """Bytes of a page on one stage, and of the fixed rings of one request slot."""

    full: Fraction
    window: Fraction
    ring_row: int


def is_compressed(architecture: Architecture) -> bool:
    """Whether the model has compressed layers."""
    return any(isinstance(layer, Compressed) for layer in architecture.layers)


def row_bytes(layer: Compressed) -> int:
    """Bytes of a latent row: fp8, the rope part in bf16, and scales: 584."""
    return layer.latent_dim + 2 * layer.rope_dim + SCALE_BYTES


def rates(architecture: Architecture, settings: Mapping[str, Any]) -> list[Rates]:
    """Rates of each pipeline stage; with speculation (L + 1) / L of them, for the draft's layer."""
    stages = stage_layers(architecture, settings)
    return [_stage_rates(layers, settings) for layers in stages]


def _stage_rates(layers: Sequence[Layer], settings: Mapping[str, Any]) -> Rates:
    """Rates of one stage.

    full    page bytes of page / 4 rows and page / 4 index rows for ratio 4; of page / 128 for 128
    window  page bytes of page rows in every layer, and a ring of 8 (speculation: 16) pairs in fp32
            for ratio 4: 2 x 2 x (head + index) x 4 each
    """
    page, members = (
        int(settings["page_size"]),
        [one for one in layers if isinstance(one, Compressed)],
    )
    full = window = ring = 0
    for layer in members:
        head = layer.latent_dim + layer.rope_dim
        window += _page_bytes(page, layer, settings)
        if layer.ratio:
            full += _page_bytes(page // layer.ratio, layer, settings)
        if layer.ratio == NEAR:
            index_row = layer.index_dim + layer.index_dim // 128 * 4
            full += page // NEAR * index_row
            window += near_ring(settings) * PAIR * PAIR * (head + layer.index_dim) * FP32
        if layer.ratio == FAR:
            ring += PAIR * head * FP32
    more = Fraction(len(members) + 1, len(members)) if draft_tokens(settings) else Fraction(1)
    return Rates(full * more, window * more, ring)


def _page_bytes(rows: int, layer: Compressed, settings: Mapping[str, Any]) -> int:
    """Bytes of a page, padded to 576; an NPU's are not."""
    exact = rows * row_bytes(layer)
    return exact if settings["device"] == "npu" else -(-exact // PAGE_ALIGN) * PAGE_ALIGN


def near_ring(settings: Mapping[str, Any]) -> int:
    """Rows of the ring of ratio 4 behind one window page."""
    return 16 if draft_tokens(settings) else 8


def ring_bytes(rate: Rates, requests: int, settings: Mapping[str, Any]) -> int:
    """Bytes of the rings of ratio 128: (requests + 2) rings and a row, in runs of 128 rows."""
    ring = 256 if draft_tokens(settings) else 128
    rows = (requests + 1) * ring + ring + 1
    return -(-rows // FAR) * FAR * rate.ring_row


def requests_of(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Requests that the rings are sized for: asked, or estimated from tokens without rings."""
    asked = wanted_requests(settings)
    if asked is not None:
        return asked
    ratio, room = swa_ratio(architecture, settings), rest_bytes(settings) * settings["page_size"]
    stages = rates(architecture, settings)
    tokens = min(int(room // (rate.full + ratio * rate.window)) for rate in stages)
    estimate = estimated_requests(tokens, context_tokens(architecture, settings))
    return max(0, min(estimate, tokens // 2))


def window_cap(architecture: Architecture, settings: Mapping[str, Any], window: int) -> int | None:
    """Window tokens from the requests: their cap, and 4 x requests prefix tails of window + page.

    None where the ratio rules: it was given, or the requests or the chunk were not.
    """
    asked = wanted_requests(settings)
    given = settings["swa_full_tokens_ratio"] is not None
    if asked is None or given or not chunk_tokens(settings):
        return None
    tails = 0 if settings["disable_radix_cache"] else PREFIX_TAILS * asked
    cap = asked * request_tokens(settings, window) + shared_tokens(settings)
    return cap + tails * (window + int(settings["page_size"]))


def build_compressed(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the problem of a DeepSeek-V4 model.

    Raises
    ------
    InvalidProblem : pages that are not whole runs of 128 tokens.
    """
    page = int(settings["page_size"])
    if page % FAR:
        raise InvalidProblem.at("--page-size", f"a multiple of {FAR} tokens", shown(page))
    stages, requests = rates(architecture, settings), requests_of(architecture, settings)
    fixed = {str(s): ring_bytes(rate, requests, settings) for s, rate in enumerate(stages)}
    window = max(one.window for one in architecture.target if isinstance(one, Compressed))
    full, near = _pools(stages, settings, (window + page) // page + 1)
    constraints: list[dict[str, Any]] = []
    cap = window_cap(architecture, settings, window)
    if cap is None:
        rests = [rest_bytes(settings) - count for count in fixed.values()]
        pages = [(rate.full, rate.window) for rate in stages]
        constraints = ratio_rule(swa_ratio(architecture, settings), pages, rests)
    else:
        near["min_blocks"] = near["max_blocks"] = -(-cap // page)
    rule = {"kind": "window", "keep": "in_flight", "window": window, "extra_blocks": 1}
    return Problem.model_validate(
        {
            "name": f"{architecture.name} in SGLang",
            "ranks": rank_entries(architecture, settings),
            "tokens_per_block": page,
            "pools": [full, near],
            "caches": [
                {"name": "full", "pool": "full", "kind": "full"},
                {"name": "window", "pool": "window", **rule},
            ],
            "consumers": [{"name": "compressor rings", "bytes": fixed}],
            "constraints": constraints,
            "goals": ["blocks:full", "blocks:window"],
            "fill": "none",
        }
    )


def _pools(
    stages: Sequence[Rates], settings: Mapping[str, Any], least: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the pools of full and of window pages, the latter with `least` pages."""
    full: dict[str, Any] = {"name": "full", "min_blocks": 1}
    full["bytes"] = {str(s): int(rate.full) for s, rate in enumerate(stages)}
    if settings["max_total_tokens"] is not None:
        limit = int(settings["max_total_tokens"]) // int(settings["page_size"])
        full["max_blocks"] = max(1, limit)
    near = {str(s): int(rate.window) for s, rate in enumerate(stages)}
    return full, {"name": "window", "bytes": near, "min_blocks": least}


def compressed_figures(
    architecture: Architecture, settings: Mapping[str, Any], full: int, window: int
) -> dict[str, str]:
    """Counts of the pools behind full and window tokens, and bytes of a full token."""
    page, rate = int(settings["page_size"]), rates(architecture, settings)[0]
    ratio = swa_ratio(architecture, settings)
    if window_cap(architecture, settings, 1) is not None:
        ratio = Fraction(0)
    hundredths = round((rate.full + ratio * rate.window) * 100 / page)
    return {
        "c4": str(full // NEAR),
        "c128": str(full // FAR),
        "c4_state": str(window // page * near_ring(settings)),
        "bytes_per_full_token": f"{hundredths // 100}.{hundredths % 100:02d}",
    }
