"""The plainest enumeration there is: every plan of a tiny problem, one after the other.

It knows nothing of classes, tables or order: it proves that the oracle's pruning loses nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from kvplan.models import Problem
from kvplan.models.elastic import Lend, Option
from kvplan.models.problem import request_name
from kvplan.solver.oracle import memory, needs


@dataclass(frozen=True)
class Candidate:
    """All decision values of a plan that keeps every rule."""

    usable: dict[str, int]
    chunk: int | None
    slots: int | None
    kept: int | None
    options: tuple[int, ...]
    requests: dict[str, tuple[int, int, int]]
    variables: dict[str, int]


def domains(problem: Problem) -> dict[str, list[int]]:
    """Values of fitted requests (bounded counts only), by name; blocks by pool."""
    values: dict[str, list[int]] = {}
    for name, (batch, request) in problem.fitted("capacity").items():
        least = max(request.least_capacity, batch.shared_prefix + request.flight_tokens)
        if not batch.shared_prefix:
            least = request.least_capacity
        values[f"capacity:{name}"] = list(range(least, request.capacity + 1))
    for name, (_, request) in problem.fitted("count").items():
        assert request.count is not None
        values[f"count:{name}"] = list(range(request.min_count or 1, request.count + 1))
    for pool in problem.pools:
        most = 0
        while all(
            memory.pool_bytes(pool, rank, rank.quota_bytes, most + 1) <= rank.quota_bytes
            for rank in problem.ranks
        ):
            most += 1
        values[f"blocks:{pool.name}"] = list(range(most - pool.reserved_blocks + 1))
    return values


def size(problem: Problem) -> int:
    """Plans to look at."""
    if any(request.count is None for _, request in problem.fitted("count").values()):
        return 10**9
    lengths = [len(values) for values in domains(problem).values()]
    chunks = len(problem.prefill.candidates) if problem.prefill else 1
    slots = 1
    if problem.experts is not None:
        most = problem.experts.max_slots
        slots = 10**9 if most is None else (most + 1) * (most + 2) // 2
    ways = [len(choice.options) for choice in problem.choices]
    return math.prod([*lengths, chunks, slots, *ways])


def candidates(problem: Problem) -> Iterator[Candidate]:
    """Every plan that keeps every rule."""
    values = domains(problem)
    chunks = problem.prefill.candidates if problem.prefill else (None,)
    names = [name for name in values if not name.startswith("blocks:")]
    for chunk in chunks:
        for fitted in itertools.product(*(values[name] for name in names)):
            sized = dict(zip(names, fitted, strict=True))
            requests = dict(_requests(problem, sized))
            raws = _raws(problem, requests, chunk)
            for usable in itertools.product(*(values[f"blocks:{p.name}"] for p in problem.pools)):
                counts = {p.name: n for p, n in zip(problem.pools, usable, strict=True)}
                if _served(problem, raws, counts):
                    yield from _settings(problem, chunk, sized, requests, raws, counts)


def _requests(
    problem: Problem, sized: dict[str, int]
) -> Iterator[tuple[tuple[str, str], tuple[int, int, int]]]:
    for batch in problem.batches:
        for index, request in enumerate(batch.requests):
            name = request_name(batch, index)
            capacity = sized.get(f"capacity:{name}", request.capacity)
            count = sized.get(f"count:{name}", 1 if request.count is None else request.count)
            yield (batch.name, name), (capacity, capacity - request.flight_tokens, count)


def _raws(
    problem: Problem, requests: dict[tuple[str, str], tuple[int, int, int]], chunk: int | None
) -> dict[str, dict[str, int]]:
    return {
        batch.name: needs.raw_needs(
            problem,
            batch,
            [
                needs.Load(*requests[batch.name, request_name(batch, index)], request.caches)
                for index, request in enumerate(batch.requests)
            ],
            chunk,
        )
        for batch in problem.batches
    }


def _served(problem: Problem, raws: dict[str, dict[str, int]], usable: dict[str, int]) -> bool:
    structural = needs.structural_floors(problem)
    for pool in problem.pools:
        count, share = usable[pool.name], needs.headroom(problem, pool)
        most = count if pool.max_blocks is None else pool.max_blocks
        if not max(pool.min_blocks, structural[pool.name]) <= count <= most:
            return False
        if count % pool.multiple_of:
            return False
        if any(raw[pool.name] > share * count for raw in raws.values()):
            return False
    return True


def _settings(
    problem: Problem,
    chunk: int | None,
    sized: dict[str, int],
    requests: dict[tuple[str, str], tuple[int, int, int]],
    raws: dict[str, dict[str, int]],
    usable: dict[str, int],
) -> Iterator[Candidate]:
    ways = itertools.product(*(range(len(choice.options)) for choice in problem.choices))
    for way, (slots, kept) in itertools.product(ways, list(_slots(problem))):
        options = [c.options[i] for c, i in zip(problem.choices, way, strict=True)]
        if not _fits(problem, chunk, slots, kept, options, usable):
            continue
        variables = {**sized, "prefill": chunk or 0, "experts": slots or 0}
        for choice, index in zip(problem.choices, way, strict=True):
            variables[f"choice:{choice.name}"] = -index
            for number, option in enumerate(choice.options):
                variables[f"choice:{choice.name}={option.name}"] = int(number == index)
        for pool in problem.pools:
            variables[f"blocks:{pool.name}"] = usable[pool.name]
        for batch in problem.batches:
            variables[f"copies:{batch.name}"] = _copies(problem, raws[batch.name], usable)
        if all(_holds(c.terms, c.min, c.max, variables) for c in problem.constraints):
            short = {name: size for (_, name), size in requests.items()}
            yield Candidate(usable, chunk, slots, kept, way, short, variables)


def _slots(problem: Problem) -> Iterator[tuple[int | None, int | None]]:
    experts = problem.experts
    if experts is None:
        yield None, None
        return
    assert experts.max_slots is not None
    for slots in range(experts.min_slots, experts.max_slots + 1):
        for kept in range(slots + 1):
            lent = slots - kept
            keep, share = (slots, 0) if experts.lend is None else _lend(experts.lend)
            if kept >= min(slots, keep) and lent <= math.floor(share * slots):
                yield slots, kept


def _lend(lend: Lend) -> tuple[int, Fraction]:
    return lend.keep, lend.fraction


def _fits(
    problem: Problem,
    chunk: int | None,
    slots: int | None,
    kept: int | None,
    options: list[Option],
    usable: dict[str, int],
) -> bool:
    allocated = {pool.name: usable[pool.name] + pool.reserved_blocks for pool in problem.pools}
    residents = memory.Residents(allocated, chunk, slots, kept, tuple(options))
    for rank in problem.ranks:
        used, quota = memory.usage(problem, rank, residents), memory.quota_of(rank)
        if max(used.values()) > quota.bytes:
            return False
        if quota.physical is not None:
            staged = memory.staging_bytes(problem, rank.stage, chunk)
            full = [taken + staged * (phase != "prefill") for phase, taken in used.items()]
            if max(full) > quota.physical:
                return False
    return True


def _copies(problem: Problem, raw: dict[str, int], usable: dict[str, int]) -> int:
    copies = 0
    while any(raw.values()) and all(
        (copies + 1) * raw[pool.name] <= needs.headroom(problem, pool) * usable[pool.name]
        for pool in problem.pools
    ):
        copies += 1
    return copies


def _holds(
    terms: dict[str, Fraction],
    low: Fraction | None,
    high: Fraction | None,
    variables: dict[str, int],
) -> bool:
    total = sum(weight * variables[name] for name, weight in terms.items())
    return (low is None or low <= total) and (high is None or total <= high)


def best_candidate(problem: Problem) -> Candidate | None:
    """The lexicographically best plan (no fill by shares)."""
    fit = [name for name in domains(problem) if not name.startswith("blocks:")]
    fitted = [
        f"{request.fit}:{request_name(batch, index)}"
        for batch in problem.batches
        for index, request in enumerate(batch.requests)
        if request.fit != "none"
    ]
    assert sorted(fit) == sorted(fitted)
    last = [*fitted, *(f"choice:{choice.name}" for choice in problem.choices)]
    last += ["prefill", "experts", *_fill(problem)]

    def rank(plan: Candidate) -> tuple[Fraction | int, ...]:
        first = [goal.value(plan.variables) for goal in problem.goals]
        then = [plan.variables[name] for name in last]
        fewest = [-plan.usable[pool.name] for pool in problem.pools]
        return (*first, *then, plan.kept or 0, *fewest)

    return max(candidates(problem), key=rank, default=None)


def _fill(problem: Problem) -> list[str]:
    fill = problem.fill
    holding = {problem.pool_of(cache) for cache in problem.caches if cache.kind != "state"}
    default = [f"blocks:{pool.name}" for pool in problem.pools if pool.name in holding]
    if fill is None:
        return default
    if fill.batch is not None:
        return [f"copies:{fill.batch}", *default]
    return [f"blocks:{name}" for name in fill.pools or ()]
