"""What a launch without memory for its cache would need: a share, more ranks, lighter weights."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from kvplan.models import Infeasible, InvalidProblem, Problem
from kvplan.models.engines.alternatives import MOST_RANKS, laid_over
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.units import exact_bytes
from kvplan.solver.solve.plan import plan

SHARES = {
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "mem_fraction_static": "--mem-fraction-static",
}
RANKS = {"tensor_parallel_size": "--tensor-parallel-size", "tp_size": "--tp-size"}
LIGHTER = {2: "fp8 weights", 4: "weights of 4 bits"}
MOST_PERCENT = 99


def starting_settings(
    adapter: Any, architecture: Architecture, settings: Settings, problem: Problem
) -> dict[str, str]:
    """Say by how much a rank misses its own budget, and the least of each setting that starts.

    Empty where every rank has bytes for a cache, where they were measured, and for engines without
    tensor parallel ranks (llama.cpp, whose layers may lie on the host).
    """
    missing = -min(rank.quota_bytes for rank in problem.ranks)
    parallel = any(key in settings for key in RANKS)
    if missing < 0 or not parallel or settings.get("weights_bytes") is None:
        return {}
    found = {"falls short by": f"{exact_bytes(missing)} before any block"}
    for label, changes in _choices(adapter, architecture, settings):
        found.setdefault(label, _value(changes))
    return (
        found
        if len(found) > 1
        else {
            **found,
            "starts with": f"none of a larger share, up to {MOST_RANKS} ranks, or lighter weights",
        }
    )


def _choices(
    adapter: Any, architecture: Architecture, settings: Settings
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each setting with its least value that starts."""

    def starts(changes: dict[str, Any]) -> bool:
        try:
            plan(adapter.build(architecture, laid_over(adapter.FLAGS, settings, changes)))
        except (Infeasible, InvalidProblem):
            return False
        return True

    weights = int(settings["weights_bytes"])
    for key, flag in SHARES.items():
        if key in settings and (percent := _least_percent(key, starts)):
            yield f"smallest {flag} that starts", {key: Fraction(percent, 100)}
    for key, flag in RANKS.items():
        ranks = 2 * max(1, int(settings.get(key) or MOST_RANKS))
        held = -(-weights // 2)
        while ranks <= MOST_RANKS:
            if starts({key: ranks, "weights_bytes": held}):
                yield f"smallest {flag} that starts", {key: ranks}
                break
            ranks, held = 2 * ranks, -(-held // 2)
    for divisor, label in LIGHTER.items():
        if starts({"weights_bytes": -(-weights // divisor)}):
            gib = Fraction(-(-weights // divisor), 2**30)
            yield "weights that start", {"weights": f"{label}, --weights-gib {float(gib):.2f}"}
            break


def _least_percent(key: str, starts: Any) -> int:
    """The smallest share in percent that starts; 0 where none does."""
    least, most = 1, MOST_PERCENT
    if not starts({key: Fraction(most, 100)}):
        return 0
    while least < most:
        middle = (least + most) // 2
        if starts({key: Fraction(middle, 100)}):
            most = middle
        else:
            least = middle + 1
    return most


def _value(changes: dict[str, Any]) -> str:
    (value,) = changes.values()
    return f"{float(value):.2f}" if isinstance(value, Fraction) else str(value)
