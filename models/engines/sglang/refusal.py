"""Why SGLang would not start, and the largest setting that does (kv_cache_configurator.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.sglang.budget import rest_bytes
from kvplan.models.engines.sglang.cells import cells, has_window_pool, window_tokens
from kvplan.models.engines.sglang.compressed import is_compressed
from kvplan.models.engines.sglang.launch.flags import draft_tokens, replicas, wanted_requests
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.state_slots import (
    fixed_slots,
    recurrent_layers,
    slot_bytes,
    slots_of_request,
)
from kvplan.models.units import exact_bytes


def refusal(architecture: Architecture, settings: Mapping[str, Any]) -> dict[str, str]:
    """Reason and figures of a start that fails, by label."""
    known = resolve(architecture, settings)
    rest = rest_bytes(known)
    lines = {
        "refused": "no GPU memory is left for the KV cache",
        "for all pools": exact_bytes(rest),
    }
    if rest > 0 and recurrent_layers(architecture):
        return lines | _of_states(architecture, known, rest)
    if rest > 0 and not is_compressed(architecture) and has_window_pool(architecture, known):
        least = window_tokens(architecture) + int(known["page_size"])
        lines["window pool"] = f"more than {least} tokens are needed (window + page)"
    return lines


def _of_states(
    architecture: Architecture, settings: Mapping[str, Any], rest: int
) -> dict[str, str]:
    """Bytes of the states, and the requests whose drafts would fit beside them."""
    slot, held = slot_bytes(architecture, settings), slots_of_request(settings)
    slots = fixed_slots(architecture, settings, rest)
    lines = {"state slots": f"{slots}, {held} a request", "of a slot": exact_bytes(slot)}
    if slots is None or slots < held:
        lines["refused"] = f"the state cache holds no request: {held} slots are needed"
        lines["state slots"] = str(slots)
        return lines
    states, drafts = (slots + 1) * slot, draft_tokens(settings)
    lines["states"] = exact_bytes(states)
    if drafts:
        requests = min(wanted_requests(settings) or 0, slots // held)
        lines["draft states"] = exact_bytes((requests + 1) * slot * drafts)
        page = int(settings["page_size"]) * max(one.full for one in cells(architecture, settings))
        most = (rest - states - page) // (slot * drafts) - 1
        fitting = str(most * replicas(settings)) if most > 0 else "none: fewer state slots first"
        lines["largest --max-running-requests that starts"] = fitting
    return lines
