"""As much of a workload as several pools hold together, in exact fractions of a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kvplan.models.errors import Infeasible
from kvplan.models.problem import Problem
from kvplan.models.units import exact_bytes
from kvplan.solver.floors import need
from kvplan.solver.managers.workload import Workload

COPY = "copy"


def copy_needs(data: Mapping[str, Any], workload: Workload) -> dict[str, int]:
    """Blocks by pool of one copy of a workload.

    Parameters
    ----------
    data : pools and caches of a problem, as plain data.
    """
    requests = [{"capacity": a.capacity, "count": a.requests} for a in workload.copy_of_it]
    asked = {
        "ranks": [{"name": "any", "quota": 0}],
        "tokens_per_block": data["tokens_per_block"],
        "pools": [{"name": pool["name"], "bytes": 1} for pool in data["pools"]],
        "caches": data["caches"],
        "batches": [{"name": COPY, "requests": requests}],
    }
    (batch,) = need(Problem.model_validate(asked)).asked.batches
    return dict(batch.blocks)


def requests_at_once(
    blocks: Mapping[str, int],
    kept: Mapping[str, int],
    needs: Mapping[str, int],
    workload: Workload,
) -> Fraction:
    """Requests that pools hold: the least over the pools of (blocks - kept) / need of a copy.

    Parameters
    ----------
    kept : blocks that are not for running requests.
    """
    count = sum(alike.requests for alike in workload.copy_of_it)
    copies = min(
        Fraction(max(0, blocks[pool] - kept.get(pool, 0)), each)
        for pool, each in needs.items()
        if each
    )
    return copies * count


def split(
    data: Mapping[str, Any], quota_bytes: int, kept: Mapping[str, int], workload: Workload
) -> dict[str, int]:
    """Blocks by pool that hold the most of a workload; the rounding goes to the first pool.

    copies = (quota - bytes kept) / bytes of one copy; blocks = kept + floor(copies x need)

    Raises
    ------
    Infeasible : what is kept takes the quota.
    """
    needs = copy_needs(data, workload)
    figures = {pool["name"]: int(pool["bytes"]) for pool in data["pools"]}
    held = sum(figures[pool] * blocks for pool, blocks in kept.items())
    if held >= quota_bytes:
        reason = f"{exact_bytes(held)} are kept before any request, of {exact_bytes(quota_bytes)}"
        raise Infeasible([reason])
    each = sum(figures[pool] * blocks for pool, blocks in needs.items())
    copies = Fraction(quota_bytes - held, each)
    blocks = {pool: kept.get(pool, 0) + copies * needs[pool] // 1 for pool in figures}
    first = next(iter(figures))
    spare = quota_bytes - sum(figures[pool] * count for pool, count in blocks.items())
    return blocks | {first: blocks[first] + spare // figures[first]}


def shares(
    blocks: Mapping[str, int], pools: Sequence[Mapping[str, Any]], quota_bytes: int
) -> dict[str, str]:
    """The shares of a quota that give just these blocks, the first pool what the others leave."""
    found = {p["name"]: Fraction(blocks[p["name"]] * p["bytes"], quota_bytes) for p in pools[1:]}
    first = str(pools[0]["name"])
    rest = {first: 1 - sum(found.values(), Fraction(0)), **found}
    return {pool: str(share) for pool, share in rest.items()}
