"""State slots of hybrid models in SGLang (_handle_max_mamba_cache of 0.5.23)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import DTYPE_BITS, Architecture, Recurrent, Tensor
from kvplan.models.engines.sglang.cells import stage_layers
from kvplan.models.engines.sglang.launch.flags import (
    attention_ranks,
    draft_tokens,
    model_dtype,
    wanted_requests,
)
from kvplan.models.engines.states import state_tensors
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown

TRACKING = {"auto": 0, "no_buffer": 0, "extra_buffer_lazy": 1}  # extra_buffer: by overlap
BASE_SLOTS = 3  # running, cached prefix, and the copy between prefill and decode


def recurrent_layers(architecture: Architecture) -> list[Recurrent]:
    """Layers with a state, drafts left out."""
    return [layer for layer in architecture.target if isinstance(layer, Recurrent)]


def tensors_of(
    layer: Recurrent, architecture: Architecture, settings: Mapping[str, Any]
) -> tuple[Tensor, ...]:
    """Conv state in the model's dtype; recurrent one in --mamba-ssm-dtype, the config's, or f32."""
    word = settings["mamba_ssm_dtype"] or layer.state_dtype or "float32"
    if word not in DTYPE_BITS:
        raise InvalidProblem.at("--mamba-ssm-dtype", one_of(DTYPE_BITS, word), shown(word))
    model = model_dtype(architecture, settings)
    ranks = attention_ranks(settings)
    return state_tensors(layer, ranks, 0, conv_dtype=model, state_dtype=word)


def slot_parts(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of conv and of recurrent state in one slot.

    Under pipeline parallelism every stage charges the share of the stage with most such layers.
    """
    layers = recurrent_layers(architecture)
    stages = stage_layers(architecture, settings)
    most = max(sum(isinstance(layer, Recurrent) for layer in stage) for stage in stages)
    conv = recurrent = 0
    for layer in layers:
        sizes = [tensor.bytes for tensor in tensors_of(layer, architecture, settings)]
        first = 1 if layer.conv_kernel else 0
        conv, recurrent = conv + sum(sizes[:first]), recurrent + sum(sizes[first:])
    return conv * most // len(layers), recurrent * most // len(layers)


def slot_bytes(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Bytes of one state slot on every rank."""
    return sum(slot_parts(architecture, settings))


def slots_of_request(settings: Mapping[str, Any]) -> int:
    """Slots that a running request takes (_calculate_mamba_ratio).

    1 without the radix cache; else 3, with an extra buffer 2 more (1 without overlap, or lazy).
    """
    if settings["disable_radix_cache"]:
        return 1
    strategy = settings["mamba_radix_cache_strategy"]
    both = 1 if settings["disable_overlap_schedule"] else 2
    return BASE_SLOTS + TRACKING.get(strategy, both)


def state_section(
    architecture: Architecture, settings: Mapping[str, Any], rest_bytes: int, *, free: bool
) -> dict[str, list[Any]]:
    """Pools, caches, goals and constraints of the states.

    Slots K, one padding slot beside them. Given --max-mamba-cache-size, or --max-running-requests
    without the radix cache, K is that. Else a share q/(1+q) of the rest R holds them, with D draft
    tokens and r slots a request:

        K slot (1 + D/r) <= R q/(1+q) - slot (1 + D)

    Speculation keeps D states more for each of min(requests, K // r) + 1 requests, however little
    memory that leaves: the engine refuses rather than to keep fewer.

    Parameters
    ----------
    rest_bytes : bytes for all pools of a rank.
    free : leave the share open (for the best split).
    """
    slot, held = slot_bytes(architecture, settings), slots_of_request(settings)
    drafts = draft_tokens(settings)
    pool: dict[str, Any] = {"name": "state", "bytes": slot, "reserved_blocks": 1}
    pool["min_blocks"] = held
    section: dict[str, list[Any]] = {
        "pools": [pool],
        "caches": [{"name": "state", "pool": "state", "kind": "state", "blocks": held}],
        "goals": ["blocks:state"],
        "constraints": [],
    }
    if drafts:
        _add_drafts(section, slot * drafts, held, settings, free=free)
    if free:
        return {**section, "goals": [], "constraints": []}
    _hold_split(section, slot, rest_bytes, settings)
    return section


def fixed_slots(
    architecture: Architecture, settings: Mapping[str, Any], rest_bytes: int
) -> int | None:
    """State slots before any token: those that flags declare, or that the ratio leaves."""
    declared = _declared_slots(settings)
    if declared is not None:
        return declared
    share, each = _ratio_share(slot_bytes(architecture, settings), rest_bytes, settings)
    return max(0, int(share // each))


def _ratio_share(
    slot: int, rest_bytes: int, settings: Mapping[str, Any]
) -> tuple[Fraction, Fraction]:
    """Bytes that --mamba-full-memory-ratio leaves to slots, and bytes of each with its drafts."""
    drafts, held = draft_tokens(settings), slots_of_request(settings)
    ratio = Fraction(settings["mamba_full_memory_ratio"])
    share = rest_bytes * ratio / (1 + ratio) - slot * (1 + drafts)
    return share, slot * (1 + Fraction(drafts, held))


def _hold_split(
    section: dict[str, list[Any]], slot: int, rest_bytes: int, settings: Mapping[str, Any]
) -> None:
    """Fix the slots that flags declare, or limit them by the ratio; the drafts' follow from them.

    With drafts both are fixed: K = floor(share / slot (1 + D/r)), min(requests, K // r) drafts.
    """
    drafts, held = draft_tokens(settings), slots_of_request(settings)
    fixed = _declared_slots(settings)
    if fixed is not None and fixed < held:
        expected = f"at least {held} slots, those of one request"
        raise InvalidProblem.at("--max-mamba-cache-size", expected, shown(fixed))
    if fixed is None:
        share, each = _ratio_share(slot, rest_bytes, settings)
        section["constraints"].append({"terms": {"blocks:state": str(each)}, "max": str(share)})
        fixed = int(share // each) if drafts else None
    if fixed is not None and fixed >= held:
        section["pools"][0] |= {"min_blocks": fixed, "max_blocks": fixed}
        if drafts:
            count = min(wanted_requests(settings) or 0, fixed // held)
            section["pools"][1] |= {"min_blocks": count, "max_blocks": count}


def _declared_slots(settings: Mapping[str, Any]) -> int | None:
    """Slots that flags fix: --max-mamba-cache-size // replicas, or the requests without radix."""
    if settings["max_mamba_cache_size"] is not None:
        replicas = int(settings["dp_size"]) if settings["enable_dp_attention"] else 1
        return int(settings["max_mamba_cache_size"]) // replicas
    return wanted_requests(settings) if settings["disable_radix_cache"] else None


def _add_drafts(
    section: dict[str, list[Any]],
    draft_bytes: int,
    held: int,
    settings: Mapping[str, Any],
    *,
    free: bool,
) -> None:
    """Add the pool of intermediate states: one for each request that the slots let run."""
    wanted = wanted_requests(settings)
    if wanted is None:
        expected = "the requests at once (speculation sizes its states by them)"
        raise InvalidProblem.at("--max-running-requests", expected, "none")
    pool: dict[str, Any] = {"name": "draft state", "bytes": draft_bytes}
    pool |= {"reserved_blocks": 1, "min_blocks": 1}
    section["pools"].append(pool if free else {**pool, "max_blocks": wanted})
    section["caches"].append({"name": "draft state", "pool": "draft state", "kind": "state"})
    section["goals"].append("blocks:draft state")
    terms = {"blocks:draft state": held, "blocks:state": -1}
    section["constraints"].append({"terms": terms, "max": 0})
