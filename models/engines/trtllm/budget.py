"""Bytes of the GPU tier, and what nobody measured of them.

    quota = free_gpu_memory_fraction x (total - weights - activation - what lies outside torch)

(_torch/pyexecutor/_util.py: total less the peak of a dry run.) Without readings nothing but the
weights comes off, and the rest is told as a range.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.estimates import Estimate, kept_estimate, total_estimate
from kvplan.models.engines.missing import no_budget

PEAK = "activation, NCCL and graphs"
MOST_PEAK_BYTES = 8 * 2**30
"""Above the weights: 3 GiB on one H100 and 4.8 with TP2 as a PyTorch engine logs them
(vllm-project/vllm#10511); twice that by judgement, as --max_num_tokens and graphs add to it."""
ESTIMATED = " (estimated)"


def quota_of(settings: Mapping[str, Any]) -> int:
    """Bytes of the GPU tier: free_gpu_memory_fraction of what is free after the load.

    Raises
    ------
    InvalidProblem : nothing says how many bytes there are.
    """
    if settings["available"] is not None:
        return int(settings["available"])
    free, share = settings["free"], Fraction(settings["free_gpu_memory_fraction"])
    if free is None:
        total, weights = settings.get("total_bytes"), settings.get("weights_bytes")
        if total is None or weights is None:
            expected = "--available or --free, or --gpu and --weights-gib"
            raise no_budget("tensorrt-llm", expected, settings)
        kept = sum(one.bytes for one in kept_estimate(settings))
        free = max(0, int(total) - kept - int(weights))
    return int(free * share)


def is_measured(settings: Mapping[str, Any]) -> bool:
    """Whether a reading says what is free."""
    return settings["available"] is not None or settings["free"] is not None


def estimates(settings: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """What of the budget nobody measured: the card's total, and what runs beside the weights."""
    if is_measured(settings) or settings.get("total_bytes") is None:
        return ()
    most = int(MOST_PEAK_BYTES * Fraction(settings["free_gpu_memory_fraction"]))
    peak = Estimate(PEAK, "--free", 0, 0, most)
    return (*total_estimate(settings), *kept_estimate(settings), peak)


def rank_section(settings: Mapping[str, Any], planned: int) -> dict[str, Any]:
    """Write a rank that has just the bytes that are planned: a quota, or how it comes about.

    The weights' row takes what the share and whole granules leave; where the floors are larger than
    the share, the quota stands alone.
    """
    if is_measured(settings):
        return {"quota": planned}
    total, share = settings["total_bytes"], Fraction(settings["free_gpu_memory_fraction"])
    found = {one.term: one for one in estimates(settings)}
    known = {"total": found.pop("total").spread} if "total" in found else {}
    other = {f"{term}{ESTIMATED}": int(one.bytes * share) for term, one in found.items()}
    left = int(total * share) - planned - sum(other.values())
    if left < 0:
        return {"quota": planned}
    ranges = known | {f"{term}{ESTIMATED}": one.spread for term, one in found.items()}
    name = f"weights, at {float(share):g} and to whole granules"
    memory = {"total": total, "utilization": share, "other": {name: left, **other}}
    return {"memory": {**memory, "estimated": list(known), "ranges": ranges}}
