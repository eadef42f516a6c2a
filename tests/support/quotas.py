"""Quotas for a small problem: too little, just enough, or plenty."""

from __future__ import annotations

from typing import Any

from kvplan.models import Problem
from kvplan.models.problem import request_name
from kvplan.solver.oracle import needs
from kvplan.solver.oracle.memory import Residents, contexts_of, usage
from support.draw import Data, Draw
from support.priorities import touch_blocks


def with_quotas(draw: Draw, data: Data) -> Data:
    """Set every quota between what the least and what the most of everything takes."""
    problem = Problem.model_validate(data)
    if touch_blocks(data):
        for pool, floor in zip(data["pools"], _floors(problem, most=True).values(), strict=True):
            pool["max_blocks"] = max(floor + draw.integer(3, 8), pool.get("min_blocks", 0))
    least, most = _taken(problem, most=False), _taken(problem, most=True)
    short = draw.chance(0.42)
    level = draw.integer(-35, -3) if short else draw.integer(0, 110)
    for rank in data["ranks"]:
        low, high = least[rank["name"]], most[rank["name"]]
        spread = draw.integer(100, 115)
        quota = max(0, (low + (high - low) * level // 100) * spread // 100)
        if draw.has("memory", 0.2):
            del rank["quota"]
            rank["memory"] = _memory(draw, quota, staged="prefill" in data)
        else:
            rank["quota"] = quota
    return data


def _memory(draw: Draw, quota: int, *, staged: bool) -> Data:
    """Readings that come to about this quota, by either share."""
    part = quota // 10
    readings = {
        name: draw.integer(0, part)
        for name in draw.some(("peak_torch", "non_torch", "graphs", "connector"))
    }
    total = 2 * (quota + sum(readings.values())) + 1
    memory: Data = {"total": total, **readings}
    if draw.chance(0.7):
        memory["utilization"] = "1/2"
    if draw.chance(0.2):
        memory["other"] = {"nccl": draw.integer(0, part // 2)}
    if "utilization" not in memory or draw.chance(0.6):
        memory["free"] = min(total, quota + readings.get("connector", 0) + draw.integer(0, part))
        headrooms: list[Any] = [draw.integer(0, part // 2), {"fraction": "1/100"}]
        if staged:
            headrooms += ["from_staging"] * 4
        memory["prefill_headroom"] = draw.one(headrooms)
    if draw.chance(0.2):
        memory["safety"] = {"fraction": "1/200"}
    return memory


def _taken(problem: Problem, *, most: bool) -> dict[str, int]:
    """Bytes by rank in the fullest phase, with everything at its least or as asked."""
    chunk, slots = _chunk(problem, most=most), None
    if problem.experts is not None:
        slots = problem.experts.min_slots + (3 if most else 0)
    option = 0 if most else -1
    floors = _floors(problem, most=most)
    allocated = {pool.name: floors[pool.name] + pool.reserved_blocks for pool in problem.pools}
    options = tuple(choice.options[option] for choice in problem.choices)
    sizes = [_loads(problem, index, most=most) for index in range(len(problem.batches))]
    capacities = {
        (batch.name, request_name(batch, index)): load.capacity
        for batch, loads in zip(problem.batches, sizes, strict=True)
        for index, load in enumerate(loads)
    }
    running = max([sum(load.count for load in loads) for loads in sizes], default=0)
    contexts = contexts_of(problem, capacities)
    residents = Residents(allocated, chunk, slots, slots, options, contexts, running)
    return {rank.name: max(usage(problem, rank, residents).values()) for rank in problem.ranks}


def _chunk(problem: Problem, *, most: bool) -> int | None:
    return problem.prefill.candidates[-1 if most else 0] if problem.prefill else None


def _floors(problem: Problem, *, most: bool) -> dict[str, int]:
    """Fewest legal blocks by pool, with requests at their least or as asked."""
    chunk = _chunk(problem, most=most)
    raws = [_raw(problem, index, chunk, most=most) for index in range(len(problem.batches))]
    structural = needs.structural_floors(problem)
    return {
        pool.name: needs.smallest_legal(
            pool,
            [raw[pool.name] for raw in raws],
            structural[pool.name],
            needs.headroom(problem, pool),
        )
        for pool in problem.pools
    }


def _raw(problem: Problem, index: int, chunk: int | None, *, most: bool) -> dict[str, int]:
    loads = _loads(problem, index, most=most)
    return needs.raw_needs(problem, problem.batches[index], loads, chunk)


def _loads(problem: Problem, index: int, *, most: bool) -> list[needs.Load]:
    """The requests of a batch, at their least or as asked."""
    batch, loads = problem.batches[index], []
    for request in batch.requests:
        count, capacity = (3 if request.count is None else request.count), request.capacity
        if request.fit == "none" and request.count is None:
            count = 1
        if request.fit == "count" and not most:
            count = request.min_count or 1
        if request.fit == "capacity" and not most:
            capacity = max(request.least_capacity, batch.shared_prefix + request.flight_tokens)
        history = request.history_tokens - (request.capacity - capacity)
        loads.append(needs.Load(capacity, history, count, request.caches))
    return loads
