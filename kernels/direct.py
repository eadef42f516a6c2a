"""The common problem answered straight: one fitted capacity at most, then pools filled in order.

No choice, chunk, expert slot, constraint or weight: what is left of the search is one ladder and
one pass over the pools. Everything that does not hang on the rooms of the rows is worked out once,
so that other quotas cost a division and the fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import le, sub

from kvplan.kernels.bytes import last_in_pages, most_blocks, pool_bytes
from kvplan.kernels.climb import block_sizes, is_ladder, ladder_of
from kvplan.kernels.demand import Demand
from kvplan.kernels.ladder import Ladder
from kvplan.kernels.terms import Buffers, Terms
from kvplan.kernels.values import Answer, Point

_MOST_KNOWN = 1024  # ends of pages that are kept


def is_direct(terms: Terms) -> bool:
    """Whether the answer is a capacity on one ladder, or none, and the pools' fill."""
    if terms.constraints or terms.choices or terms.experts or terms.fill_shares:
        return False
    if len(terms.chunks) > 1 or len(terms.fitted) > 1 or terms.fill_from != len(terms.fitted):
        return False
    for index, fitted in enumerate(terms.fitted):
        variable = terms.goals[index].single
        if fitted.is_count or variable is None or variable.kind != "capacity":
            return False
        if len(block_sizes(terms)) != 1 or not is_ladder(terms, index):
            return False
    return terms.fill_batch is None


class Direct:
    """The answer to a problem that `is_direct`, for any rooms."""

    def __init__(self, terms: Terms, demand: Demand) -> None:
        self.terms = terms
        self.demand = demand
        self._reserved = [pool.reserved for pool in terms.pools]
        self._tops: dict[tuple[int, int, int], tuple[int, int]] = {}

    def answer(self, rooms: Sequence[int]) -> Answer | None:
        """The best point; None when nothing fits.

        Parameters
        ----------
        rooms : bytes by row of the terms.
        """
        capacities: tuple[int, ...] = ()
        values: tuple[int, ...] = ()
        if self.terms.fitted:
            capacity = self._capacity(rooms)
            if capacity is None:
                return None
            capacities = values = (capacity,)
        usable = self._usable(capacities)
        rests = self._rests(usable, rooms)
        if rests is None or min(rests) < 0:
            return None
        self._fill(usable, rests)
        point = Point(capacities, self._counts, 0, (), 0, 0, tuple(usable))
        values += tuple([usable[pool] for pool in self.terms.fill_pools])
        return Answer(point, values, values, True)

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        return tuple([fitted.requests for fitted in self.terms.fitted])

    def _usable(self, capacities: tuple[int, ...]) -> list[int]:
        return self.demand.floors(0, capacities, self._counts)

    def _rests(self, usable: list[int], rooms: Sequence[int]) -> list[int] | None:
        """What a demand leaves of every row, negative where short; None beyond max_blocks."""
        for pool, blocks in zip(self.terms.pools, usable, strict=True):
            if pool.most is not None and blocks > pool.most:
                return None
        return [
            room - self._bytes(usable, row.pools)
            for row, room in zip(self.terms.rows, rooms, strict=True)
        ]

    def _bytes(self, usable: list[int], pools: tuple[Buffers, ...]) -> int:
        total = 0
        for blocks, reserved, buffers in zip(usable, self._reserved, pools, strict=False):
            blocks += reserved
            for size, granule in buffers:
                total += -(-blocks * size // granule) * granule
        return total

    # --- capacity ------------------------------------------------------------------------------

    def _capacity(self, rooms: Sequence[int]) -> int | None:
        """The requested capacity, or the last rung that fits."""
        fitted = self.terms.fitted[0]
        assert fitted.most is not None
        asked = self._asked
        if asked and all(map(le, asked, rooms)):
            return fitted.most
        if self._ladder is None:
            return None
        first, period, ladder, still = self._ladder
        rung = ladder.climb([*map(sub, rooms, still)])
        return None if rung is None else first + rung * period

    @cached_property
    def _asked(self) -> list[int] | None:
        """Bytes by row at the requested capacity; None beyond a pool's max_blocks."""
        most = self.terms.fitted[0].most
        assert most is not None
        rests = self._rests(self._usable((most,)), [0] * len(self.terms.rows))
        return None if rests is None else [-rest for rest in rests]

    @cached_property
    def _ladder(self) -> tuple[int, int, Ladder, list[int]] | None:
        """First capacity, period, ladder, and the bytes of each row that do not grow."""
        fitted = self.terms.fitted[0]
        assert fitted.most is not None
        (period,) = block_sizes(self.terms)
        first = -(-fitted.least // period) * period
        if first >= fitted.most:
            return None
        others = self.demand.floors_without(fitted.batch, 0, (first,), self._counts)
        last = (fitted.most - 1 - first) // period
        values = ((first,), self._counts)
        ladder = ladder_of(self.demand, 0, 0, values, others, period, last)
        still = [0] * len(self.terms.rows)
        if len(ladder.steps) < len(self.terms.pools):
            usable = self._usable((first,))
            for step in ladder.steps:
                usable[step.pool] = -self._reserved[step.pool]
            still = [self._bytes(usable, row.pools) for row in self.terms.rows]
        return first, period, ladder, still

    # --- fill ----------------------------------------------------------------------------------

    def _fill(self, usable: list[int], rests: list[int]) -> None:
        """Pools raised one after the other to what fits beside the others."""
        rows = [(number, row.pools) for number, row in enumerate(self.terms.rows) if row.pools]
        for index in self.terms.fill_pools:
            pool = self.terms.pools[index]
            held = usable[index] + pool.reserved
            top = pool.most
            for number, pools in rows:
                if pools[index]:
                    most = self._most(number, index, held, rests[number]) - pool.reserved
                    if top is None or most < top:
                        top = most
            if top is None or top <= usable[index]:
                continue
            top -= top % pool.multiple
            if top > usable[index]:
                usable[index] = top
                for number, pools in rows:
                    grown = pool_bytes(top + pool.reserved, pools[index])
                    rests[number] -= grown - pool_bytes(held, pools[index])

    def _most(self, row: int, index: int, held: int, rest: int) -> int:
        """Blocks of a pool that fit in the pages it has and in what is left of a row."""
        buffers = self.terms.rows[row].pools[index]
        key = (row, index, held)
        known = self._tops.get(key)
        if known is None:
            if len(self._tops) > _MOST_KNOWN:
                self._tops.clear()
            granule = min([granule for _, granule in buffers])
            known = self._tops[key] = (granule, last_in_pages(held, buffers))
        granule, in_pages = known
        return (
            in_pages if rest < granule else most_blocks(pool_bytes(held, buffers) + rest, buffers)
        )
