"""Rungs of a fitted capacity where every need is min(a + k s, cap): a few operations a cache.

With the period a multiple of every block size, a cache's need along a residue class is known from
two of its values: the first, and one so far up that no window grows any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvplan.kernels.arrays.arrays import Array, Integers
from kvplan.kernels.arrays.budget import pool_bytes
from kvplan.kernels.instance import FULL, STATE, CacheRule, Instance
from kvplan.kernels.need import request_blocks

if TYPE_CHECKING:
    from kvplan.kernels.arrays.search import Search
    from kvplan.kernels.arrays.state import State


class Rise(NamedTuple):
    """min(start + k step, cap) blocks of one request in one cache."""

    start: Integers
    step: int
    cap: Integers | None  # None: grows for ever

    def at(self, search: Search, rung: Array) -> Array:
        """Blocks at a rung."""
        blocks = self.start + rung * self.step
        return blocks if self.cap is None else search.arrays.smallest(blocks, self.cap)


def is_climbable(search: Search, state: State, index: int) -> bool:
    """Whether needs are of that form, and everything else stands."""
    instance: Instance = search.instance
    period = search.candidates[index].period
    free = [not each for i, each in enumerate(state.decided) if i in search.candidates]
    return (
        sum(free) == 1
        and all(isinstance(copies, int) for copies in state.copies)
        and not instance.batches[instance.fitted[index].batch].prefix_tokens
        and not any(rule.scratch for rule in instance.caches)
        and all(period % rule.block_tokens == 0 for rule in instance.caches if rule.kind != STATE)
    )


class Climb:
    """What fits along the classes of one fitted capacity.

    Parameters
    ----------
    first : lowest capacity of every class.
    """

    def __init__(self, search: Search, state: State, index: int, first: Array) -> None:
        self.search, self.tile = search, search.tile
        self.request = search.instance.fitted[index]
        capacity, count = search.corners(state.with_low(index, first), index)
        self.times = count[index]
        usable = self.tile.usable(state, capacity, count, state.chunk)
        rests = self.tile.rests(usable, state.chunk, state.experts)
        raws = self.tile.needs.batch(self.request.batch, capacity, count, state.chunk)
        self.rises = self._rises(state, first, search.candidates[index].period)
        self.base = {
            pool: raws[pool] - self.times * self._sum(rises, rung=None)
            for pool, rises in self.rises.items()
        }
        # The floors of all else are part of the first rung's, and no rung needs less.
        self.least = {pool: usable[pool] for pool in self.rises}
        self.rests = [
            self._without_growing(row.pools, rest)
            for row, rest in zip(self.tile.layout.rows, rests, strict=True)
        ]

    def _rises(self, state: State, first: Array, period: int) -> dict[int, list[Rise]]:
        found: dict[int, list[Rise]] = {}
        batch = self.tile.needs.moving[self.request.batch]
        for rule in self.search.instance.caches:
            if rule.kind != STATE:
                far = self._far(rule, period, max(batch.flights(rule)))
                flight = batch.flight(rule, state.chunk)
                ends = [
                    request_blocks(rule, at, at - self.request.flight, flight, 0)
                    for at in (first, first + far * period)
                ]
                step = rule.groups * (period // rule.block_tokens)
                cap = None if rule.kind == FULL else ends[1]
                found.setdefault(rule.pool, []).append(Rise(ends[0], step, cap))
        return found

    def _far(self, rule: CacheRule, period: int, flight: int) -> int:
        """Rungs after which no window grows."""
        tokens = rule.reach + flight + self.request.flight + rule.sink_blocks * rule.block_tokens
        return tokens // period + 3

    def _sum(self, rises: list[Rise], rung: Array | None) -> Integers:
        total: Integers = 0
        for rise in rises:
            total = total + (rise.start if rung is None else rise.at(self.search, rung))
        return total

    def _without_growing(
        self, pools: tuple[tuple[tuple[int, int], ...], ...], rest: Array
    ) -> Array:
        """What a row has left for the pools that grow."""
        for pool in self.rises:
            if pools and pools[pool]:
                reserved = self.search.instance.pools[pool].reserved
                rest = rest + pool_bytes(self.least[pool] + reserved, pools[pool])
        return rest

    def fits(self, rung: Array) -> Array:
        """Whether every row and every limit of a growing pool holds at a rung."""
        arrays, pools = self.search.arrays, self.search.instance.pools
        held: dict[int, Integers] = {}
        fit: Array | None = None
        for pool, rises in self.rises.items():
            raw = self.base[pool] + self.times * self._sum(rises, rung)
            usable = arrays.greatest(self.tile.legal(pool, raw), self.least[pool])
            held[pool] = usable + pools[pool].reserved if pools[pool].reserved else usable
            most = pools[pool].most
            if most is not None:
                fit = (usable <= most) if fit is None else fit & (usable <= most)
        for row, rest in zip(self.tile.layout.rows, self.rests, strict=True):
            taken: Integers = 0
            for pool, blocks in held.items():
                if row.pools and row.pools[pool]:
                    taken = taken + pool_bytes(blocks, row.pools[pool])
            fit = (rest >= taken) if fit is None else fit & (rest >= taken)
        assert fit is not None
        return fit
