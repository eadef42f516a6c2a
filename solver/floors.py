"""What a problem needs, without solving it: blocks by pool, batch and request, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.kernels.bytes import least_kept, pool_bytes
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Budget, Instance
from kvplan.kernels.need import blocks, placeholder_blocks
from kvplan.kernels.values import Point
from kvplan.models import Problem
from kvplan.models.problem import as_problem
from kvplan.solver.answer.in_use import bytes_by_phase
from kvplan.solver.formulate.formulation import Formulation, formulate


@dataclass(frozen=True, slots=True)
class RequestNeed:
    """What one of `count` alike requests holds of its own.

    Attributes
    ----------
    capacity, history : tokens.
    blocks : by cache, not divided by the utilization.
    """

    name: str
    capacity: int
    history: int
    count: int
    blocks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BatchNeed:
    """What a batch holds at once.

    Attributes
    ----------
    raw : blocks by pool of all its requests, before the one division by the utilization.
    shared : of them those that belong to no single request: a prefix, a flight per batch.
    blocks : usable blocks by pool, ceil(raw / resume_utilization).
    """

    name: str
    requests: tuple[RequestNeed, ...]
    raw: Mapping[str, int]
    shared: Mapping[str, int]
    blocks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Need:
    """The floors at one size of what is fitted, and the bytes that they take.

    Attributes
    ----------
    blocks : usable blocks by pool: the largest of the batches, min_blocks, multiple_of and the
        structural floor. Reserved blocks are not counted here; their bytes are below.
    pool_bytes : by rank and pool, reserved blocks included.
    bytes : by rank and phase, everything that lives there included, to compare with the quota.
    """

    blocks: Mapping[str, int]
    batches: tuple[BatchNeed, ...]
    pool_bytes: Mapping[str, Mapping[str, int]]
    bytes: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs with everything elastic at its least, and as it was asked for."""

    least: Need
    asked: Need


def need(problem: Problem) -> Needs:
    """Floors and bytes of a problem; nothing is searched, and quotas and constraints do not matter.

    * least: fitted requests at their lower bound, the smallest chunk, `min_slots` of experts, of
      each choice the option that takes fewest bytes there.
    * asked: capacities and counts as requested (an open count at its least), the requested chunk,
      the first option of each choice, `min_slots` of experts, which nobody asks a number of.

    A live window's need is not monotone: a capacity between the two may need less than the least.

    Raises
    ------
    InvalidProblem : `problem` is none, or is invalid as a whole.
    """
    formulation = formulate(as_problem(problem))
    instance = formulation.instance
    least = tuple([fitted.least for fitted in instance.fitted])
    asked = tuple([f.least if f.most is None else f.most for f in instance.fitted])
    smallest = instance._replace(every_budget=tuple(map(_smallest, instance.every_budget)))
    last = len(instance.chunks) - 1
    return Needs(
        _need(Formulation(lambda: (problem, smallest), formulation.fitted_at, None), least, 0),
        _need(formulation, asked, last),
    )


def _smallest(budget: Budget) -> Budget:
    """A budget that charges the smallest option of each choice, whichever is picked."""
    least = tuple([(min(options),) * len(options) for options in budget.options])
    return budget._replace(options=least)


def _need(formulation: Formulation, sizes: tuple[int, ...], chunk: int) -> Need:
    instance, names = formulation.instance, _names(formulation)
    demand, experts = Demand(instance), instance.experts
    pairs = [*zip(instance.fitted, sizes, strict=True)]
    slots = experts.least if experts else 0
    point = Point(
        capacities=tuple([f.capacity if f.is_count else size for f, size in pairs]),
        counts=tuple([size if f.is_count else f.requests for f, size in pairs]),
        chunk=chunk,
        options=(0,) * len(instance.choices),
        experts=slots,
        kept=least_kept(slots, experts) if experts else 0,
        usable=(),
    )
    usable = demand.floors(chunk, point.capacities, point.counts)
    phases, _ = bytes_by_phase(formulation, point._replace(usable=tuple(usable)))
    ranks = [rank.name for rank in formulation.problem.ranks]
    return Need(
        dict(zip(names, usable, strict=False)),
        tuple([_batch(formulation, demand, b, point) for b in range(len(instance.batches))]),
        _pool_bytes(formulation, usable),
        dict(zip(ranks, phases, strict=True)),
    )


def _names(formulation: Formulation) -> list[str]:
    """Of the problem's pools; where running requests are counted, they stand last everywhere."""
    return [pool.name for pool in formulation.instance.named_pools]


def _batch(formulation: Formulation, demand: Demand, batch: int, point: Point) -> BatchNeed:
    names = _names(formulation)
    raw = demand.raw(batch, point.chunk, point.capacities, point.counts)
    usable = [0] * len(raw)
    demand.raise_floors(usable, raw)
    requests = _requests(formulation, demand, batch, point)
    shared = dict(zip(names, raw, strict=False))
    problem = formulation.problem
    for request in requests:
        for cache in problem.caches:
            shared[problem.pool_of(cache)] -= request.count * request.blocks[cache.name]
    return BatchNeed(
        formulation.instance.batches[batch].name,
        requests,
        dict(zip(names, raw, strict=False)),
        shared,
        dict(zip(names, usable, strict=False)),
    )


def _requests(
    formulation: Formulation, demand: Demand, batch: int, point: Point
) -> tuple[RequestNeed, ...]:
    """Every request of a batch, in the order written; alike ones are worked out once."""
    found, known = list[RequestNeed](), dict[tuple[int, int], dict[str, int]]()
    names = formulation.request_names[batch]
    for r, request in enumerate(formulation.problem.batches[batch].requests):
        index = formulation.fitted_at.get((batch, r))
        capacity, count = request.capacity, 1 if request.count is None else request.count
        if index is not None:
            capacity, count = point.capacities[index], point.counts[index]
        shape = (capacity, capacity - request.flight_tokens)
        if shape not in known:
            known[shape] = _own(formulation, demand, batch, point.chunk, *shape)
        name, own = names[r], known[shape]
        if request.caches is not None:
            own = {cache: held if cache in request.caches else 0 for cache, held in own.items()}
        found.append(RequestNeed(name, *shape, count, own))
    return tuple(found)


def _own(
    formulation: Formulation, demand: Demand, batch: int, chunk: int, capacity: int, history: int
) -> dict[str, int]:
    """Blocks of one request by cache."""
    caches = formulation.problem.caches
    if capacity == 0:
        held = [placeholder_blocks(rule) for rule in formulation.instance.caches]
    else:
        held = [blocks(term, capacity, history) for term in demand.terms(batch, chunk)]
    return {cache.name: mine for cache, mine in zip(caches, held, strict=False)}


def _pool_bytes(formulation: Formulation, usable: list[int]) -> dict[str, dict[str, int]]:
    """Bytes of the floors and the reserved blocks, by rank and pool."""
    instance: Instance = formulation.instance
    found: dict[str, dict[str, int]] = {}
    for budget in instance.every_budget:
        if budget.pools:
            held = zip(instance.named_pools, usable, budget.pools, strict=False)
            rank = formulation.problem.ranks[budget.rank].name
            found[rank] = {p.name: pool_bytes(n + p.reserved, mine) for p, n, mine in held}
    return found or {rank.name: {} for rank in formulation.problem.ranks}
