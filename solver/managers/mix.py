"""A workload as the mix that gets the rest of the bytes, and what given pools hold of it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.problem import Problem
from kvplan.solver.managers.workload import Workload
from kvplan.solver.solve.plan import plan


def mix_of(workload: Workload) -> list[dict[str, Any]]:
    """The lengths of a workload; shares sum to 1, so that a plan's scale counts requests."""
    count = sum(alike.requests for alike in workload.copy_of_it)
    return [
        {"capacity": alike.capacity, "share": str(Fraction(alike.requests, count))}
        for alike in workload.copy_of_it
    ]


def requests_at_once(
    data: Mapping[str, Any], blocks: Mapping[str, int], workload: Workload
) -> Fraction:
    """Requests of a workload that pools of so many blocks hold at once, reserved blocks included.

    Parameters
    ----------
    data : tokens_per_block, pools and caches of a problem, as plain data.
    """
    pools = [{"name": pool["name"], "bytes": 1, **_held(pool, blocks)} for pool in data["pools"]]
    held = Problem.model_validate(
        {
            "ranks": [{"name": "blocks", "quota": sum(blocks.values())}],
            "pools": pools,
            "caches": data["caches"],
            "tokens_per_block": data["tokens_per_block"],
            "fill": {"mix": mix_of(workload)},
        }
    )
    return plan(held).scale or Fraction(0)


def _held(pool: Mapping[str, Any], blocks: Mapping[str, int]) -> dict[str, int]:
    """Reserved blocks as far as there are any, and no more usable ones than are left."""
    reserved = min(int(pool.get("reserved_blocks", 0)), blocks[pool["name"]])
    usable = {"max_blocks": blocks[pool["name"]] - reserved}
    return {"reserved_blocks": reserved, **usable, "multiple_of": pool.get("multiple_of", 1)}
