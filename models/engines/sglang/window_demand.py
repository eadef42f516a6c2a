"""Window tokens that requests of SGLang hold at the most (compute_swa_request_cap of 0.5.23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.sglang.launch.flags import chunk_tokens, draft_tokens, wanted_requests

SPECULATION = ("speculative_num_steps", "speculative_eagle_topk")


def request_cap(settings: Mapping[str, Any], window: int) -> int | None:
    """Window tokens that --max-running-requests needs without the radix cache.

    requests x (window + eviction interval x draft tokens + page + decode) + chunks in flight x
    chunk + page, where decode is a page, or what speculation allocates: twice with overlap.
    None where the ratio rules.
    """
    wanted = wanted_requests(settings)
    if wanted is None or not settings["disable_radix_cache"]:
        return None
    if not chunk_tokens(settings):
        return None
    return wanted * request_tokens(settings, window) + shared_tokens(settings)


def request_tokens(settings: Mapping[str, Any], window: int) -> int:
    """Window tokens of one request: its window, what is not yet evicted, and a decode step."""
    behind = int(settings["swa_eviction_interval"]) * max(1, draft_tokens(settings))
    return window + behind + int(settings["page_size"]) + _decode_tokens(settings)


def shared_tokens(settings: Mapping[str, Any]) -> int:
    """Window tokens of the chunks in flight: two of them with overlap, and a page."""
    flights = 1 if settings["disable_overlap_schedule"] else 2
    return flights * chunk_tokens(settings) + int(settings["page_size"])


def _decode_tokens(settings: Mapping[str, Any]) -> int:
    """Tokens that a decode step of one request may allocate."""
    page, drafts = int(settings["page_size"]), draft_tokens(settings)
    if not drafts:
        return page
    steps, branches = (int(settings[key] or 1) for key in SPECULATION)
    if settings["disable_overlap_schedule"]:
        if page > 1:
            steps = -(-(steps + (page if branches > 1 else 0)) // page) * page
            drafts = -(-drafts // page) * page
        return max(steps * branches, drafts)
    if page > 1 and branches > 1:
        steps = -(-(page - 1 + steps) // page) * page
    return 2 * max(steps * branches, drafts)
