"""The bytes that SGLang shares out among its pools (_profile_available_bytes of 0.5.23).

    rest = free after load - (1 - mem_fraction_static) x free before load

which is `mem_fraction_static x before` less what the load took: a rank's memory section with the
free bytes before the load as total.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.checkpoint.stage_weights import StageWeights, stage_weights
from kvplan.models.engines.estimates import Estimate, kept_estimate, total_estimate
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.missing import no_budget
from kvplan.models.engines.sglang.cells import stage_counts
from kvplan.models.engines.sglang.reserve import (
    CONTEXT,
    ESTIMATED,
    RESERVE,
    context_estimate,
    reserve_estimate,
)
from kvplan.models.errors import InvalidProblem
from kvplan.models.ranks import Rank


def rank_entries(architecture: Architecture, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Ranks of a problem, one for each stage."""
    return [
        {"name": f"stage{stage}", "stage": stage, **section}
        for stage, section in enumerate(_sections(architecture, settings))
    ]


def _sections(architecture: Architecture, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Quota or memory section by stage; weights at hand are charged tensor by tensor.

    Raises
    ------
    InvalidProblem : --available of another count of stages.
    """
    stages, given = int(settings["pp_size"]), available_of(settings)
    if given:
        if len(given) not in (1, stages):
            expected = f"one figure, or one for each of {stages} stages"
            raise InvalidProblem.at("--available", expected, str(len(given)))
        return [{"quota": count} for count in given * (stages if len(given) == 1 else 1)]
    weights = weights_of(architecture, settings) if stages > 1 else None
    if weights is None:
        return [rank_entry(settings)] * stages
    held = weights.on(stage_counts(architecture, settings))
    return [rank_entry({**settings, "weights_bytes": count}) for count in held]


def available_of(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """--available: one figure or one for each stage; empty where it was not given."""
    given = settings["available"]
    if given is None:
        return ()
    return tuple(map(int, given)) if isinstance(given, tuple) else (int(given),)


def weights_of(architecture: Architecture, settings: Mapping[str, Any]) -> StageWeights | None:
    """Weights by layer and end on one rank, where the tensors are at hand."""
    listed = settings.get("weights")
    if listed is None:
        return None
    return stage_weights(listed, architecture, int(settings["tp_size"]))


def estimates(settings: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """What of the budget nobody measured: the card's total, the context, the slack."""
    if available_of(settings):
        return ()
    before, found = settings["free_before_load"], list[Estimate]()
    if before is None:
        kept = kept_estimate(settings)  # gone before the first reading, as the context is
        found += [*total_estimate(settings), context_estimate(settings), *kept]
    total = settings.get("total_bytes") if before is None else before
    if settings["mem_fraction_static"] is None and total is not None:
        found.append(reserve_estimate(int(total), settings))
    return tuple(found)


def rank_entry(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Quota or memory section of a rank (the first one's, where --available differs by stage).

    Measured readings rule; without them the card's total and the weights stand in, and the terms
    that nobody measured say so.

    Raises
    ------
    InvalidProblem : nothing says how many bytes there are.
    """
    given = available_of(settings)
    if given:
        return {"quota": given[0]}
    before, after = settings["free_before_load"], settings["free_after_load"]
    if before is not None and after is not None:
        return {"memory": _section(before, {"load": before - after}, settings)}
    total, weights = settings.get("total_bytes"), settings.get("weights_bytes")
    if total is None or weights is None:
        expected = "--available, or --free-before-load and --free-after-load, or --gpu and weights"
        raise no_budget("sglang", expected, settings)
    return {"memory": _section(int(total), {"weights": int(weights)}, settings)}


def _section(total: int, other: dict[str, int], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write a memory section; without a given share the slack is what the engine would reserve."""
    share = settings["mem_fraction_static"]
    found = {one.term: one for one in estimates(settings)}
    known = {"total": found.pop("total").spread} if "total" in found else {}
    other |= {f"{term}{ESTIMATED}": _charged(one, share) for term, one in found.items()}
    ranges = known | {f"{term}{ESTIMATED}": one.spread for term, one in found.items()}
    memory = {"total": total, "utilization": share if share is not None else 1, "other": other}
    return {**memory, "estimated": list(known), "ranges": ranges} if ranges else memory


def _charged(one: Estimate, share: Fraction | None) -> int:
    """What the system keeps is gone before the share is taken; the other terms are scaled."""
    scales = one.term not in (CONTEXT, RESERVE) and share is not None
    return -int(-Fraction(share) * one.bytes // 1) if scales and share is not None else one.bytes


def rest_bytes(settings: Mapping[str, Any]) -> int:
    """Bytes for all pools of a rank, the poorest one's where --available differs by stage."""
    given = available_of(settings)
    entry = {"name": "any", **rank_entry(settings)}
    return min(given) if given else Rank.model_validate(entry).quota_bytes
