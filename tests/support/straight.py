"""Random problems of the common kind: one capacity at most is fitted, and pools are filled."""

from __future__ import annotations

import random
from typing import Any

from kvplan.models import Problem

Data = dict[str, Any]


def straight_problem(seed: int) -> Problem:
    """One block size, caches of every retention, pools with every limit, one to three ranks."""
    rng = random.Random(seed)
    stages = rng.choice((1, 1, 1, 2))
    pools = [_pool(rng, index, stages) for index in range(rng.randint(1, 4))]
    owners = [pool["name"] for pool in pools]
    owners += [rng.choice(owners) for _ in range(rng.randint(0, 2))]
    caches = [_cache(rng, index, owner) for index, owner in enumerate(owners)]
    ranks = max(stages, rng.choice((1, 1, 2, 3)))
    data: Data = {
        "ranks": [
            {"name": f"r{k}", "stage": k % stages, "quota": rng.choice((300, 900, 2500, 9000))}
            for k in range(ranks)
        ],
        "tokens_per_block": rng.choice((1, 2, 4, 5, 8)),
        "resume_utilization": rng.choice(("1", "0.97", "0.5", "19/20")),
        "pools": pools,
        "caches": caches,
        "batches": _batches(rng),
    }
    if rng.random() < 0.3:
        data["consumers"] = [{"name": "c", "bytes": rng.randint(0, 99), "phases": ["prefill"]}]
    if rng.random() < 0.4:
        names = [pool["name"] for pool in pools]
        rng.shuffle(names)
        data["fill"] = rng.choice(("none", {"pools": names[: rng.randint(1, len(names))]}))
    return Problem.model_validate(data)


def _pool(rng: random.Random, index: int, stages: int) -> Data:
    buffers = [
        {"bytes": _size(rng, stages), "granule": rng.choice((1, 1, 16, 100))}
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    pool: Data = {"name": f"p{index}", "buffers": buffers}
    if rng.random() < 0.2:
        pool["reserved_blocks"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        pool["multiple_of"] = rng.choice((2, 3))
    if rng.random() < 0.25:
        pool["max_blocks"] = rng.randint(5, 120)
    if rng.random() < 0.2:
        pool["min_blocks"] = rng.randint(1, 5)
    if rng.random() < 0.2:
        pool["resume_headroom"] = False
    return pool


def _size(rng: random.Random, stages: int) -> Any:
    if stages == 1:
        return rng.randint(1, 30)
    return {"0": rng.randint(1, 30), "1": rng.choice((0, rng.randint(1, 30)))}


def _cache(rng: random.Random, index: int, pool: str) -> Data:
    cache: Data = {"name": f"c{index}", "pool": pool, "groups": rng.choice((1, 1, 2))}
    if rng.random() < 0.2:
        cache["extra_blocks"] = rng.randint(1, 2)
    kind = rng.choice(("full", "full", "live", "live", "peak", "in_flight", "chunked", "state"))
    if kind in ("full", "state"):
        return cache | {"kind": kind}
    flight: Data = {"in_flight": rng.randint(1, 9)} if rng.random() < 0.5 else {}
    if kind == "chunked":
        return cache | flight | {"kind": kind, "chunk": rng.randint(1, 40)}
    cache |= {"kind": "window", "window": rng.randint(1, 60), "keep": kind}
    if kind == "in_flight":
        return cache | flight | {"in_flight_per": rng.choice(("batch", "request"))}
    if rng.random() < 0.4:
        cache["sink"] = rng.randint(0, 12)
    return cache if kind == "live" else cache | flight


def _batches(rng: random.Random) -> list[Data]:
    batches: list[Data] = []
    for index in range(rng.randint(1, 3)):
        peers = []
        for _ in range(rng.choice((0, 1, 2, 30))):
            capacity = rng.randint(0, 20)
            peer: Data = {"capacity": capacity, "history": rng.randint(0, capacity)}
            peers.append(peer | {"count": rng.choice((0, 1, 1, 2))})
        batches.append({"name": f"b{index}", "requests": peers})
    if rng.random() < 0.8:
        capacity = rng.choice((1, 7, 40, 300, 5000))
        fitted: Data = {"name": "long", "capacity": capacity, "fit": "capacity"}
        if capacity > 1 and rng.random() < 0.5:
            fitted["history"] = capacity - rng.randint(1, min(9, capacity - 1))
        if rng.random() < 0.3:
            fitted["count"] = rng.choice((0, 2, 3))
        if capacity > 20 and rng.random() < 0.3:
            fitted["min_capacity"] = rng.randint(1, 20)
        batches[0]["requests"].append(fitted)
    return batches
