"""Every point within bounds, tried one by one: what a search's largest values must be.

It shares the needs of one point (`Demand.raw`) with the search, and nothing of how it moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from typing import NamedTuple

from kvplan.kernels.bytes import expert_bytes, least_kept, pool_bytes
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Budget, Instance, Variable
from kvplan.kernels.search.bounds import Bounds
from kvplan.kernels.values import Point, constraint_value, holds
from kvplan.solver.answer.in_use import budget_bytes

MOST_OPEN = 60  # counts that only the quota bounds
MISSES = 4  # values that do not fit, after which no larger one is tried


class Load(NamedTuple):
    """A value for every variable request."""

    capacities: tuple[int, ...]
    counts: tuple[int, ...]


class Points:
    """All loads of one instance against its budgets."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self._demand = instance, Demand(instance)
        self._raws: dict[tuple[int, int, Load], list[int]] = {}

    def loads(self, bounds: Bounds) -> Iterator[Load]:
        """Every combination of capacities and counts."""
        ranges = [
            range(low, (low + MOST_OPEN if high is None else high) + 1)
            for low, high in zip(bounds.low, bounds.high, strict=True)
        ]
        fitted = self.instance.fitted
        for values in product(*ranges):
            pairs = list(zip(fitted, values, strict=True))
            yield Load(
                tuple(f.capacity if f.is_count else value for f, value in pairs),
                tuple(value if f.is_count else f.requests for f, value in pairs),
            )

    def raw(self, batch: int, chunk: int, load: Load) -> list[int]:
        """Raw blocks by pool of a batch."""
        key = (batch, chunk, load)
        if key not in self._raws:
            self._raws[key] = self._demand.raw(batch, chunk, *load)
        return self._raws[key]

    def usable(self, bounds: Bounds, load: Load) -> list[int]:
        """Fewest legal blocks by pool that hold everything."""
        batches = range(len(self.instance.batches))
        raws = [
            [max(1, bounds.copies[b]) * held for held in self.raw(b, bounds.chunk, load)]
            for b in batches
        ]
        found = []
        for index, pool in enumerate(self.instance.pools):
            needs = [-(-raw[index] * pool.use_den // pool.use_num) for raw in raws]
            most = max(pool.least, bounds.blocks[index], *needs)
            found.append(-(-most // pool.multiple) * pool.multiple)
        return found

    def taken(self, budget: Budget, bounds: Bounds, usable: list[int]) -> int:
        """Bytes of one budget."""
        total = sum(
            pool_bytes(blocks + pool.reserved, buffers)
            for blocks, pool, buffers in zip(
                usable, self.instance.pools, budget.pools, strict=bool(budget.pools)
            )
        )
        experts = self.instance.experts
        if budget.layers and experts is not None:
            held = least_kept(bounds.experts, experts) if budget.lent else bounds.experts
            total += expert_bytes(held, budget.layers, experts)
        total += budget.staging[bounds.chunk] if budget.staging else 0
        options = zip(bounds.options, budget.options, strict=True)
        return total + sum(choice[option] for option, choice in options)

    def fits(self, bounds: Bounds, load: Load) -> bool:
        """Whether one load keeps every limit, all else at its least."""
        usable = self.usable(bounds, load)
        for blocks, pool in zip(usable, self.instance.pools, strict=True):
            if pool.most is not None and blocks > pool.most:
                return False
        return all(
            self.taken(budget, bounds, usable) <= budget.limit_bytes
            for budget in self.instance.every_budget
        )

    def possible(self, bounds: Bounds) -> bool:
        """Whether some load fits."""
        return any(self.fits(bounds, load) for load in self.loads(bounds))

    def largest(self, bounds: Bounds, variable: Variable) -> int | None:
        """The largest value of a variable at any point within bounds; None where there is none."""
        kind, index = variable
        if kind in ("capacity", "count"):
            fitting = [load for load in self.loads(bounds) if self.fits(bounds, load)]
            return max((load[kind == "count"][index] for load in fitting), default=None)
        if not self.possible(bounds):
            return None
        if kind == "choice":
            return -bounds.options[index]
        best, misses = None, 0
        for value, raised in self._raised(bounds, variable):
            is_possible = self.possible(raised)
            best = value if is_possible else best
            misses = 0 if is_possible else misses + 1
            if misses == MISSES:
                break
        return best

    def _raised(self, bounds: Bounds, variable: Variable) -> Iterator[tuple[int, Bounds]]:
        kind, index = variable
        if kind == "prefill":
            for chunk in range(bounds.chunk, bounds.chunk_most + 1):
                yield self.instance.chunks[chunk], bounds._replace(chunk=chunk)
        elif kind == "experts":
            most = self.instance.experts.most if self.instance.experts else 0
            for slots in count(bounds.experts):
                if most is not None and slots > most:
                    return
                yield slots, bounds._replace(experts=slots)
        elif kind == "blocks":
            multiple = self.instance.pools[index].multiple
            for blocks in count(-(-bounds.blocks[index] // multiple) * multiple, multiple):
                held = (*bounds.blocks[:index], blocks, *bounds.blocks[index + 1 :])
                yield blocks, bounds._replace(blocks=held)
        else:
            for copies in count(max(1, bounds.copies[index])):
                times = (*bounds.copies[:index], copies, *bounds.copies[index + 1 :])
                yield copies, bounds._replace(copies=times)


def keeps_every_rule(instance: Instance, demand: Demand, point: Point) -> bool:
    """Whether a point, its ranges apart, breaks no rule of an instance."""
    experts = instance.experts
    if experts is not None and not (
        experts.least <= point.experts
        and least_kept(point.experts, experts) <= point.kept <= point.experts
    ):
        return False
    for index, pool in enumerate(instance.pools):
        usable = point.usable[index]
        if usable < pool.least or usable % pool.multiple:
            return False
        for batch in range(len(instance.batches)):
            raw = demand.raw(batch, point.chunk, point.capacities, point.counts)[index]
            if usable * pool.use_num < raw * pool.use_den:
                return False
    return all(
        budget_bytes(instance, budget, point) <= budget.limit_bytes
        for budget in instance.every_budget
    ) and all(
        holds(row, constraint_value(instance, demand, point, row)) for row in instance.constraints
    )
