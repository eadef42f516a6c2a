"""The common problem answered straight: one fitted capacity at most, then pools filled in order.

No choice, chunk, expert slot, constraint or weight: what is left of the search is one class of
capacities and one pass over the pools. Everything that does not hang on the rooms of the rows is
worked out once, so that other quotas cost a division and the fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt, le, lt
from typing import NamedTuple

from kvplan.kernels.bytes import last_in_pages, pool_bytes
from kvplan.kernels.climb import block_sizes, ladder_of, rung_of
from kvplan.kernels.demand import Demand
from kvplan.kernels.filling import raise_pool
from kvplan.kernels.instance import Instance
from kvplan.kernels.ladder import Ladder
from kvplan.kernels.line import Line, Residue, line_of
from kvplan.kernels.values import Answer, Point
from kvplan.models.immutable.lazy import cached_property

_MOST_KNOWN = 64  # fills of pages that are kept
_NEVER = 1 << 200  # bytes that no row has


def is_direct(instance: Instance) -> bool:
    """Whether the answer is a capacity of one class, or none, and the pools' fill."""
    if instance.constraints or instance.choices or instance.experts or instance.fill_shares:
        return False
    fitted = instance.fitted
    if len(instance.chunks) > 1 or len(fitted) > 1 or instance.fill_from != len(fitted):
        return False
    if instance.fill_batch is not None:
        return False
    if not fitted:
        return True
    if fitted[0].is_count or instance.batches[fitted[0].batch].prefix_tokens:
        return False
    if instance.goals[0].single != ("capacity", 0) or instance.goals[0].members[0].weight != 1:
        return False
    if any(rule.scratch for rule in instance.caches):
        return False
    return len(block_sizes(instance)) == 1


class Demanded(NamedTuple):
    """A demand that fits: what is decided, and what it leaves of every row."""

    capacities: tuple[int, ...]
    usable: list[int]  # blocks by pool
    rests: list[int]  # bytes by row


class Direct:
    """The answer to a problem that `is_direct`, for any rooms."""

    def __init__(self, instance: Instance, demand: Demand) -> None:
        self.instance = instance
        self.demand = demand
        self._counts = tuple([fitted.requests for fitted in instance.fitted])
        self._ends: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        if instance.fitted:
            (self._period,) = block_sizes(instance)
            self._first = -(-instance.fitted[0].least // self._period) * self._period
            self._last = (self._asked - 1 - self._first) // self._period

    def answer(self, rooms: Sequence[int]) -> Answer | None:
        """The best point; None when nothing fits.

        Parameters
        ----------
        rooms : bytes by row of the instance.
        """
        found = self._fitted(rooms) if self.instance.fitted else self._demanded((), rooms)
        if found is None:
            return None
        capacities, usable, rests = found
        self._fill(usable, rests)
        values = (*capacities, *[usable[pool] for pool in self.instance.fill_pools])
        point = Point(capacities, self._counts, 0, (), 0, 0, tuple(usable))
        return Answer(point, values, values, True)

    # --- capacity ------------------------------------------------------------------------------

    @property
    def _asked(self) -> int:
        """The requested capacity."""
        most = self.instance.fitted[0].most
        assert most is not None
        return most

    def _fitted(self, rooms: Sequence[int]) -> Demanded | None:
        """The requested capacity, or the last one of the class that fits."""
        line = self._line
        rung = -1 if line is None else line.last(rooms)
        decides = line is not None and line.full_from <= rung < self._last
        if line is not None and decides and self._is_too_much(rooms):
            return self._on_line(line, rung, rooms)
        if self._fits_asked(rooms):
            return self._demanded((self._asked,), rooms)
        if self._last < 0:
            return None
        last = rung_of(line, rooms, self._last, self._ladder)
        return None if last is None else self._demanded((self._capacity(last),), rooms)

    def _is_too_much(self, rooms: Sequence[int]) -> bool:
        """Whether the requested capacity does not fit; the line's pool alone often tells."""
        return any(map(gt, self._least_asked, rooms)) or not self._fits_asked(rooms)

    def _fits_asked(self, rooms: Sequence[int]) -> bool:
        taken = self._bytes_asked
        return taken is not None and all(map(le, taken, rooms))

    def _on_line(self, line: Line, rung: int, rooms: Sequence[int]) -> Demanded:
        """The demand at a rung where all windows are full."""
        blocks = line.blocks(rung)
        usable = [*line.usable]
        usable[line.place] = blocks
        return Demanded((self._capacity(rung),), usable, line.rests(blocks, rooms))

    @cached_property
    def _least_asked(self) -> list[int]:
        """No more than the requested capacity takes of each row."""
        assert self._line is not None
        return self._line.least_bytes(self._last)

    def _capacity(self, rung: int) -> int:
        return self._first + rung * self._period

    def _demanded(self, capacities: tuple[int, ...], rooms: Sequence[int]) -> Demanded | None:
        """The least demand at given capacities, if it fits."""
        usable = self.demand.floors(0, capacities, self._counts)
        taken = self._bytes(usable)
        if taken is None or not all(map(le, taken, rooms)):
            return None
        return Demanded(capacities, usable, [a - b for a, b in zip(rooms, taken, strict=True)])

    def _bytes(self, usable: list[int]) -> list[int] | None:
        """Bytes of a demand by row; None beyond a pool's max_blocks."""
        pools = self.instance.pools
        for pool, blocks in zip(pools, usable, strict=True):
            if pool.most is not None and blocks > pool.most:
                return None
        held = [blocks + pool.reserved for pool, blocks in zip(pools, usable, strict=True)]
        return [sum(map(pool_bytes, held, row.pools)) for row in self.instance.budgets]

    @cached_property
    def _bytes_asked(self) -> list[int] | None:
        return self._bytes(self.demand.floors(0, (self._asked,), self._counts))

    @cached_property
    def _line(self) -> Line | None:
        return line_of(self.demand, self._residue)

    def _ladder(self, rooms: Sequence[int]) -> tuple[Ladder, list[int]]:
        """The whole class, and the rooms of what grows in it."""
        residue = self._residue
        built = ladder_of(self.demand, residue, self._last)
        usable = self.demand.floors(0, residue.capacities, residue.counts)
        return built, built.rooms(self.instance, usable, rooms)

    @cached_property
    def _residue(self) -> Residue:
        """The class of capacities in which a need may rise, with what other batches need."""
        values = (self._first,), self._counts
        others = self.demand.floors_without(self.instance.fitted[0].batch, 0, *values)
        return Residue(0, 0, *values, others, self._period)

    # --- fill ----------------------------------------------------------------------------------

    def _fill(self, usable: list[int], rests: list[int]) -> None:
        """Pools raised one after the other to what fits beside the others; in place."""
        order, least = self.instance.fill_pools, self._least_pages
        for step, index in enumerate(order):
            if all(map(lt, rests, least)):
                self._fill_pages(usable, order[step:])
                return
            raise_pool(self.instance, index, usable, rests)

    @cached_property
    def _least_pages(self) -> list[int]:
        """The smallest granule of each row."""
        rows = [
            [granule for pool in row.pools for _, granule in pool] for row in self.instance.budgets
        ]
        return [min(granules, default=_NEVER) for granules in rows]

    def _fill_pages(self, usable: list[int], order: tuple[int, ...]) -> None:
        """The same where no row has a page left: a pool gets what its own pages hold."""
        held = tuple([usable[index] for index in order])
        ends = self._ends.get((order, held))
        if ends is None:
            if len(self._ends) > _MOST_KNOWN:
                self._ends.clear()
            ends = [self._end_of_pages(*pair) for pair in zip(order, held, strict=True)]
            self._ends[order, held] = ends
        for index, end in zip(order, ends, strict=True):
            usable[index] = end

    def _end_of_pages(self, index: int, blocks: int) -> int:
        """Most usable blocks in the pages that some take already, in every row."""
        _, reserved, _, end, multiple, _, _ = self.instance.pools[index]
        held = blocks + reserved
        for row in self.instance.budgets:
            if row.pools and row.pools[index]:
                last = last_in_pages(held, row.pools[index]) - reserved
                if end is None or last < end:
                    end = last
        return blocks if end is None else max(blocks, end - end % multiple)
