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
from kvplan.models.engines.sglang.launch.flags import chunk_tokens
from kvplan.models.errors import InvalidProblem
from kvplan.models.ranks import Rank

MIB, LARGE_CARD_BYTES, FLOOR_MIB = 2**20, 60 * 2**30, 10 * 1024
CONTEXT_BYTES = 600 * MIB
"""Bytes of the CUDA context and its libraries, which are gone before the first reading."""


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
    """What of the budget nobody measured: the card's total."""
    measured = available_of(settings) or settings["free_before_load"] is not None
    return () if measured else (*total_estimate(settings), *kept_estimate(settings))


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
    share = settings["mem_fraction_static"]
    before, after = settings["free_before_load"], settings["free_after_load"]
    if before is not None and after is not None:
        return {"memory": _section(before, {"load": before - after}, share, settings)}
    total, weights = settings.get("total_bytes"), settings.get("weights_bytes")
    if total is None or weights is None:
        expected = "--available, or --free-before-load and --free-after-load, or --gpu and weights"
        raise no_budget("sglang", expected, settings)
    scaled = CONTEXT_BYTES * Fraction(share if share is not None else 1)
    other = {"weights": int(weights), "context (estimated)": -int(-scaled // 1)}
    for one in kept_estimate(settings):  # gone before the first reading, as the context is
        kept = Fraction(share if share is not None else 1) * one.bytes
        other[f"{one.term} (estimated)"] = -int(-kept // 1)
    return {"memory": _section(int(total), other, share, settings)}


def _section(
    total: int, other: dict[str, int], share: Fraction | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a memory section; without a given share the slack is what the engine would reserve."""
    if share is None:
        other["activations and graphs (estimated)"] = reserve_bytes(total, settings)
    memory = {"total": total, "utilization": share if share is not None else 1, "other": other}
    found = {one.term: one.spread for one in estimates(settings)}
    if not found:
        return memory
    total_spread = {"total": found.pop("total")} if "total" in found else {}
    ranges = total_spread | {f"{term} (estimated)": spread for term, spread in found.items()}
    return {**memory, "estimated": list(total_spread), "ranges": ranges}


def reserve_bytes(total: int, settings: Mapping[str, Any]) -> int:
    """Slack behind the default share, in MiB: 512 + 1.5 x max(chunk, 2048) + 128 x tp x pp.

    Without chunks --max-prefill-tokens stands for one.

    At least 10 GiB on cards above 60 GiB (memory_hook.py of 0.5.23; its graph terms, which depend
    on the batch sizes that are captured, are left out).
    """
    chunk = max(chunk_tokens(settings) or int(settings["max_prefill_tokens"]), 2048)
    ranks = int(settings["tp_size"]) * int(settings["pp_size"])
    reserve = 512 + chunk * 3 // 2 + 128 * ranks
    return MIB * (max(reserve, FLOOR_MIB) if total > LARGE_CARD_BYTES else reserve)


def rest_bytes(settings: Mapping[str, Any]) -> int:
    """Bytes for all pools of a rank, the poorest one's where --available differs by stage."""
    given = available_of(settings)
    entry = {"name": "any", **rank_entry(settings)}
    return min(given) if given else Rank.model_validate(entry).quota_bytes
