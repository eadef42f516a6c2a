"""One instance searched: what bounds demand at least, and the largest value of one variable.

Goals raise one bound after the other (kernels.search.ordered). Bounds are possible when one of
their least demands fits in every budget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from kvplan.kernels.bytes import expert_bytes, least_kept, most_slots, pool_bytes
from kvplan.kernels.evaluate import Evaluator
from kvplan.kernels.instance import Budget, Instance, Variable
from kvplan.kernels.largest import bisect_largest
from kvplan.kernels.moving import Moving
from kvplan.kernels.narrow import narrowed
from kvplan.kernels.residues import Residues
from kvplan.kernels.search.bounds import Bounds, LeastDemand, put
from kvplan.kernels.search.others import Others, least_usable
from kvplan.kernels.search.undecided import Undecided
from kvplan.kernels.workspace import workspaces_bytes
from kvplan.models.immutable.lazy import cached_property

_MANY_CLASSES = 16  # from here on the range is narrowed first


class Settled(NamedTuple):
    """A least demand that fits, where the last capacity was decided."""

    bounds: Bounds
    demand: LeastDemand
    left: list[int]  # bytes by layout


class Search:
    """Searches one instance in plain integers.

    What follows from the layout (needs, bytes by value) is separate from the limits, so
    `with_limits` is cheap.

    Attributes
    ----------
    shape : the instance, whose limits do not count; `limits` do.
    pools_from : the first objective from which on only pools are raised, one after the other.
    """

    def __init__(self, instance: Instance) -> None:
        self.shape = instance
        self.limits: Sequence[int] = [budget.limit_bytes for budget in instance.budgets]
        self.demand = Evaluator(instance)
        self.pools_from = instance.pools_from
        self._undecided = Undecided(self.demand)
        self._others = Others(self.demand, self._undecided)
        self._settled: Settled | None = None
        self._write: Callable[[], Instance] | None = None

    @cached_property
    def instance(self) -> Instance:
        """What is searched, limits included; of a search with other limits, on first use."""
        return self.shape if self._write is None else self._write()

    def with_limits(self, limits: Sequence[int], write: Callable[[], Instance]) -> Search:
        """The same search for an instance that differs only in the limits of its budgets.

        Parameters
        ----------
        limits : bytes by budget of that instance.
        write : that instance, on first use.
        """
        twin = Search.__new__(Search)
        twin.__dict__.update(self.__dict__, limits=limits, _write=write, _settled=None)
        twin.__dict__.pop("instance", None)
        return twin

    def starts(self) -> list[Bounds]:
        """Undecided bounds, one for each combination of options."""
        instance = self.shape
        low = tuple([fitted.least for fitted in instance.fitted])
        high = tuple([fitted.most for fitted in instance.fitted])
        slots = instance.experts.least if instance.experts else 0
        blocks, copies = (0,) * len(instance.pools), (0,) * len(instance.batches)
        last = len(instance.chunks) - 1
        return [
            Bounds(low, high, 0, last, options, slots, blocks, copies)
            for options in product(*map(range, instance.choices))
        ]

    # --- least demands -------------------------------------------------------------------------

    def demands(self, bounds: Bounds) -> Iterator[LeastDemand]:
        """Every least demand that no other undercuts, limits not yet checked."""
        settled = self._settled
        if settled is not None and settled.bounds == bounds:
            yield settled.demand
            return
        for usable, at in least_usable(self._others.usable(bounds)):
            yield LeastDemand(*self._values(at), usable)

    def _values(self, at: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Capacities and counts by variable request."""
        values = dict(at)
        fitted = list(enumerate(self.shape.fitted))
        return (
            tuple([f.capacity if f.is_count else values[i] for i, f in fitted]),
            tuple([values[i] if f.is_count else f.requests for i, f in fitted]),
        )

    def used(self, budget: Budget, bounds: Bounds, demand: LeastDemand) -> int:
        """Bytes of a budget that a least demand takes, the fewest experts kept in prefill."""
        total = self.demand.other_bytes(budget, bounds.chunk, bounds.options, bounds.experts)
        held = zip(demand.usable, self.demand.reserved, strict=True)
        for (usable, reserved), buffers in zip(held, budget.pools, strict=False):
            total += pool_bytes(usable + reserved, buffers)
        return total + workspaces_bytes(budget.workspaces, bounds.chunk, demand.capacities)

    def rests(self, bounds: Bounds) -> list[int]:
        """Bytes by layout that are left for the pools."""
        return self.demand.rests(self.limits, bounds.chunk, bounds.options, bounds.experts)

    def left(self, bounds: Bounds, demand: LeastDemand) -> list[int]:
        """Bytes by layout that a least demand leaves; below 0 where it does not fit."""
        settled = self._settled
        if settled is not None and settled.demand is demand and settled.bounds == bounds:
            return [*settled.left]
        taken = self.demand.pool_bytes(demand.usable, bounds.chunk)
        return [rest - mine for rest, mine in zip(self.rests(bounds), taken, strict=True)]

    def fits(self, bounds: Bounds, demand: LeastDemand) -> bool:
        """Whether a least demand keeps every pool limit and budget."""
        if not self.demand.within_limits(demand.usable):
            return False
        return min(self.left(bounds, demand), default=0) >= 0

    def fitting(self, bounds: Bounds) -> LeastDemand | None:
        """The first least demand that fits."""
        for demand in self.demands(bounds):
            if self.fits(bounds, demand):
                return demand
        return None

    def possible(self, bounds: Bounds) -> bool:
        """Whether some least demand fits."""
        return self.fitting(bounds) is not None

    # --- bounds --------------------------------------------------------------------------------

    def range_of(self, bounds: Bounds, variable: Variable) -> tuple[int, int | None]:
        """Bounds of a variable; None where only the quota bounds it."""
        kind, index = variable
        if kind in ("capacity", "count"):
            return bounds.low[index], bounds.high[index]
        if kind == "experts":
            experts = self.shape.experts
            return bounds.experts, None if experts is None else experts.most
        if kind == "prefill":
            chunks = self.shape.chunks
            return chunks[bounds.chunk], chunks[bounds.chunk_most]
        if kind == "blocks":
            return bounds.blocks[index], self.shape.pools[index].most
        if kind == "choice":
            return -bounds.options[index], -bounds.options[index]
        return bounds.copies[index], None

    def at_least(self, bounds: Bounds, variable: Variable, value: int) -> Bounds:
        """The bounds with a variable bounded from below (a choice is left as it is)."""
        kind, index = variable
        if kind in ("capacity", "count"):
            return bounds._replace(low=put(bounds.low, index, max(value, bounds.low[index])))
        if kind == "experts":
            return bounds._replace(experts=max(bounds.experts, value))
        if kind == "blocks":
            multiple = self.shape.pools[index].multiple
            value = max(-(-value // multiple) * multiple, bounds.blocks[index])
            return bounds._replace(blocks=put(bounds.blocks, index, value))
        if kind == "copies":
            copies = put(bounds.copies, index, max(value, bounds.copies[index]))
            return bounds._replace(copies=copies)
        if kind == "prefill":
            chunk = next(i for i, tokens in enumerate(self.shape.chunks) if tokens >= value)
            return bounds._replace(chunk=max(bounds.chunk, chunk))
        return bounds

    def settled(self, bounds: Bounds, variable: Variable, value: int) -> Bounds:
        """The bounds with a variable at the largest value that it can have."""
        if variable.kind in ("capacity", "count"):
            at, low, high = variable.position, bounds.low, bounds.high
            return Bounds(put(low, at, value), put(high, at, value), *bounds[2:])
        bounds = self.at_least(bounds, variable, value)
        if variable.kind == "prefill":
            return bounds._replace(chunk_most=bounds.chunk)
        return bounds

    # --- the largest value of one variable -----------------------------------------------------

    def largest(self, bounds: Bounds, variable: Variable) -> int | None:
        """Largest value of a variable, everything undecided at its least; None if nothing fits.

        The value of a choice is minus the index of its option.
        """
        kind, index = variable
        if kind == "capacity":
            return self._largest_capacity(bounds, index)
        if kind == "count":
            return self._largest_count(bounds, index)
        if kind == "copies":
            return self._largest_copies(bounds, index)
        if kind == "prefill":
            chunk = self._largest_chunk(bounds)
            return None if chunk is None else self.shape.chunks[chunk]
        if kind == "experts":
            return self._best(bounds, self._slots_beside)
        if kind == "blocks":
            return self._best(bounds, lambda b, demand: self.blocks_beside(b, demand, index))
        return -bounds.options[index] if self.possible(bounds) else None

    def _best(self, bounds: Bounds, value_of: Callable[[Bounds, LeastDemand], int]) -> int | None:
        """The largest value beside any least demand that fits."""
        fitting = [demand for demand in self.demands(bounds) if self.fits(bounds, demand)]
        return max((value_of(bounds, demand) for demand in fitting), default=None)

    def _largest_capacity(self, bounds: Bounds, index: int) -> int | None:
        """The requested capacity, or the best of the residue classes."""
        high = bounds.high[index]
        assert high is not None
        rests, ways = self.rests(bounds), self._others.of_capacity(bounds, index)
        if any(moving.fits(rests, high) for moving in ways):
            best: int | None = high
        elif bounds.low[index] == high or (len(ways) > 1 and not self.possible(bounds)):
            best = None
        else:
            best = self._best_of_classes(bounds, index, ways, rests)
        if best is not None and len(ways) == 1:
            self._settle(bounds, index, best, ways[0], rests)
        return best

    def _settle(
        self, bounds: Bounds, index: int, value: int, moving: Moving, rests: Sequence[int]
    ) -> None:
        """Keep the least demand of a capacity that was the last one to decide."""
        bounds = self.settled(bounds, Variable("capacity", index), value)
        if bounds.low == bounds.high:
            demand = LeastDemand(*self._values([*enumerate(bounds.low)]), moving.usable(value))
            pairs = zip(rests, moving.at(value).bytes, strict=True)
            self._settled = Settled(bounds, demand, [rest - taken for rest, taken in pairs])

    def _best_of_classes(
        self, bounds: Bounds, index: int, ways: Sequence[Moving], rests: Sequence[int]
    ) -> int | None:
        residues, low, high = self._undecided.residues[index], bounds.low[index], bounds.high[index]
        assert residues is not None
        assert high is not None
        best: int | None = None
        for moving in ways:
            start = low if best is None else best + 1
            found = _largest_of_classes(residues, moving, rests, start, high)
            best = best if found is None else found
        return best

    def _largest_count(self, bounds: Bounds, index: int) -> int | None:
        low, high = bounds.low[index], bounds.high[index]
        return self._largest_of(self._others.of_count(bounds, index), bounds, low, high)

    def _largest_copies(self, bounds: Bounds, batch: int) -> int | None:
        low = max(1, bounds.copies[batch])
        found = self._largest_of(self._others.of_copies(bounds, batch), bounds, low, None)
        return 0 if found is None and self.possible(bounds) else found

    def _largest_of(
        self, ways: list[Moving], bounds: Bounds, low: int, high: int | None
    ) -> int | None:
        rests = self.rests(bounds)
        steps = None if high is None else high - low
        found = [moving.largest(rests, low, 1, steps) for moving in ways]
        return max((value for value in found if value is not None), default=None)

    def _largest_chunk(self, bounds: Bounds) -> int | None:
        if not self.demand.uses_chunk:
            return self._best(bounds, self._chunk_beside)
        if not self.possible(bounds):
            return None
        return bisect_largest(
            lambda chunk: self.possible(bounds._replace(chunk=chunk)),
            bounds.chunk,
            bounds.chunk_most,
        )

    def _chunk_beside(self, bounds: Bounds, demand: LeastDemand) -> int:
        """Index of the largest chunk whose staging fits; no need follows the chunk."""
        chunk = bounds.chunk_most
        for budget, spare in self.spare(bounds, demand):
            if budget.staging:
                rest = spare + budget.staging[bounds.chunk]
                chunk = min(chunk, bisect_right(budget.staging, rest) - 1)
        return chunk

    def spare(self, bounds: Bounds, demand: LeastDemand) -> Iterator[tuple[Budget, int]]:
        """Every budget with the bytes that a least demand leaves it; below 0 where it does not fit.

        The fewest experts are kept in prefill.
        """
        taken = self.demand.pool_bytes(demand.usable, bounds.chunk)
        budgets = zip(self.shape.budgets, self.demand.layout_of, self.limits, strict=True)
        for budget, layout, limit in budgets:
            others = self.demand.other_bytes(budget, bounds.chunk, bounds.options, bounds.experts)
            yield budget, limit - others - taken[layout]

    def _slots_beside(self, bounds: Bounds, demand: LeastDemand) -> int:
        """Most expert slots, lent ones counted by what stays during prefill."""
        experts = self.shape.experts
        assert experts is not None
        most, kept = experts.most, None
        for budget, spare in self.spare(bounds, demand):
            if not budget.layers:
                continue
            held = least_kept(bounds.experts, experts) if budget.lent else bounds.experts
            rest = spare + expert_bytes(held, budget.layers, experts)
            slots = most_slots(rest, budget.layers, experts)
            if budget.lent:
                kept = slots if kept is None else min(kept, slots)
            else:
                most = slots if most is None else min(most, slots)
        assert most is not None
        if kept is None:
            return most
        within = kept
        return bisect_largest(lambda e: least_kept(e, experts) <= within, bounds.experts, most)

    def blocks_beside(self, bounds: Bounds, demand: LeastDemand, pool: int) -> int:
        """Usable blocks of one pool that fit beside the others' (which fit)."""
        return self.raised(bounds, demand, (pool,)).usable[pool]

    def raised(self, bounds: Bounds, demand: LeastDemand, pools: Sequence[int]) -> LeastDemand:
        """Pools raised one after the other to what fits beside the others (which fit)."""
        rests, usable = self.left(bounds, demand), list(demand.usable)
        for pool in pools:
            self.demand.raise_pool(pool, usable, rests)
        return demand._replace(usable=tuple(usable))


def _largest_of_classes(
    residues: Residues, moving: Moving, rests: Sequence[int], low: int, high: int
) -> int | None:
    """The largest capacity in [low, high] that fits, one way."""
    best, end = None, high
    if residues.most_classes > _MANY_CLASSES:
        best, end = narrowed(moving, rests, low, high)
    start, period = low if best is None else best + 1, residues.period
    for first in residues.firsts(start, end):
        if best is not None:
            if first <= best:
                first += -((first - best - 1) // period) * period
            if first > end or not moving.fits(rests, first):
                continue  # most classes cannot do better
        found = moving.largest(rests, first, period, (end - first) // period)
        best = best if found is None else found
    return best
