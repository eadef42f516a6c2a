"""Problems of plausible size: many pools, ranks, batches and requests, prefixes, weighted goals."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from kvplan.models import Problem

PAGE = 2 * 2**20


class Size(NamedTuple):
    """How much of everything a problem has."""

    pools: int = 8
    ranks: int = 8
    batches: int = 4
    requests: int = 20  # a batch
    fitted: int = 2  # of them
    prefix_tokens: int = 0
    weighted_goals: int = 3
    seed: int = 0


SIZES = {
    "8 pools, 8 ranks": Size(),
    "64 pools, 64 ranks": Size(pools=64, ranks=64),
    "64 pools, 64 ranks, prefixes": Size(pools=64, ranks=64, prefix_tokens=4096),
}


def sized(size: Size) -> Problem:
    """A feasible problem: a third of the caches full, the others live windows of eight spans."""
    draw = random.Random(size.seed)
    names = [f"p{index}" for index in range(size.pools)]
    quota = {8: 80}.get(size.pools, 300 * size.pools)
    return Problem.model_validate(
        {
            "ranks": [{"name": f"r{i}", "quota": f"{quota}GiB"} for i in range(size.ranks)],
            "tokens_per_block": 32,
            "pools": [_pool(draw, name, index) for index, name in enumerate(names)],
            "caches": [_cache(name, index) for index, name in enumerate(names)],
            "batches": [_batch(draw, size, index) for index in range(size.batches)],
            "goals": [_goal(names, index) for index in range(size.weighted_goals)],
        }
    )


def _pool(draw: random.Random, name: str, index: int) -> dict[str, Any]:
    large, small = 65536 * (index + 1) + 4096 * draw.randrange(3), 4096 * (index + 1)
    buffers = [{"bytes": size, "granule": PAGE} for size in (large, small)]
    return {"name": name, "buffers": buffers}


def _cache(name: str, index: int) -> dict[str, Any]:
    if index % 3 == 0:
        return {"name": f"full {name}", "pool": name, "kind": "full"}
    window = {"kind": "window", "keep": "live", "window": 128 << index % 8}
    return {"name": f"window {name}", "pool": name, **window}


def _batch(draw: random.Random, size: Size, number: int) -> dict[str, Any]:
    requests: list[dict[str, Any]] = [
        {"name": f"q{number}.{index}", "capacity": draw.randrange(8192, 131072)}
        for index in range(size.requests)
    ]
    for request in requests[: size.fitted]:
        request["fit"] = "capacity"
    return {"name": f"b{number}", "shared_prefix": size.prefix_tokens, "requests": requests}


def _goal(names: list[str], number: int) -> dict[str, Any]:
    members = [f"blocks:{names[(3 * number + step) % len(names)]}" for step in range(3)]
    weights = (700 + number, 1401 + number, 2003)
    return {"maximize": {**dict(zip(members, weights, strict=True)), "capacity:q0.0": 1}}
