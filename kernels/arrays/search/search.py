"""The largest value of one variable in every scenario of a tile, all undecided at its least."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.kernels.arrays.arrays import Array, Integers
from kvplan.kernels.arrays.candidates import Candidates
from kvplan.kernels.arrays.search.array_bytes import most_blocks
from kvplan.kernels.arrays.search.state import State
from kvplan.kernels.arrays.search.tile import Tile
from kvplan.kernels.instance import Variable

Predicate = Callable[[Array], Array]
NONE = -1
"""As a value: nothing fits."""
UNBOUNDED = 1 << 61
"""Beside other bounds only; `limits` keeps every figure below."""


class Search:
    """`Search.possible` and `Search.largest` over arrays."""

    def __init__(self, tile: Tile, candidates: dict[int, Candidates]) -> None:
        self.tile, self.arrays, self.instance = tile, tile.arrays, tile.instance
        self.candidates = candidates

    # --- least demands -------------------------------------------------------------------------

    def demands(
        self, state: State, trial: int | None = None
    ) -> tuple[list[Integers], list[Integers]]:
        """Capacities and counts of every least demand; a trial variable as it stands."""
        capacity, count = list(self.tile.capacity), list(self.tile.count)
        for index, fitted in enumerate(self.instance.fitted):
            if fitted.is_count:
                count[index] = state.low[index]
            elif state.decided[index] or index == trial:
                capacity[index] = state.low[index]
            else:
                capacity[index] = self._lows(state, index)
        return capacity, count

    def _lows(self, state: State, index: int) -> Integers:
        low, high = state.low[index], state.high[index]
        assert high is not None
        return self.candidates[index].lows(self.arrays.array(low), self.arrays.array(high))

    def usable(self, state: State, trial: int | None = None) -> list[Integers]:
        """Usable blocks by pool of every least demand."""
        capacity, count = self.demands(state, trial)
        return self.tile.usable(state, capacity, count, state.chunk)

    def possible(self, state: State, trial: int | None = None) -> Array:
        """Whether some least demand fits: [start, ..., scenario], a trial axis kept."""
        usable = self.usable(state, trial)
        return self.some(self.tile.fits(usable, state.chunk, state.experts), trial)

    def some(self, fits: Array, trial: int | None = None) -> Array:
        """Whether anything holds along the axes of the fitted capacities but the trial's."""
        kept = self.candidates[trial].axis if trial in self.candidates else None
        for axis in range(1, self.tile.layout.axes - 1):
            if axis != kept and fits.shape[axis] > 1:
                fits = self.arrays.xp.any(fits, axis=axis, keepdims=True)
        return fits

    # --- the largest value ---------------------------------------------------------------------

    def largest(self, state: State, variable: Variable) -> Array:
        """Largest value, or NONE: [start, 1 ..., scenario]."""
        kind, index = variable
        if kind == "capacity":
            return self._capacity(state, index)
        if kind == "count":
            return self._count(state, index)
        if kind == "blocks":
            return self._blocks(state, index)
        if kind == "prefill":
            return self._chunk(state)
        if kind == "experts":
            return self._experts(state)
        return self._copies(state, index)

    def bisect(self, fits: Predicate, low: Integers, high: Integers) -> Array:
        """Largest n in [low, high] that fits, elementwise, given that `low` does."""
        low = self.arrays.array(low)
        high = self.arrays.greatest(high, low)
        widest = int(self.arrays.xp.max(high - low)) if self.tile.number else 0
        for _ in range(widest.bit_length()):
            middle = (low + high + 1) >> 1
            fit = fits(middle)
            low = self.arrays.pick(fit, middle, low)
            high = self.arrays.pick(fit, high, middle - 1)
        return low

    def _capacity(self, state: State, index: int) -> Array:
        """The requested capacity, or the best of one bisection a residue class."""
        candidates = self.candidates[index]
        low, high = self.arrays.array(state.low[index]), self.arrays.array(state.high[index])
        if state.decided[index]:
            return low

        def fits(capacity: Array) -> Array:
            return self.possible(state.with_low(index, capacity), index)

        at_high = fits(high)
        first, steps = candidates.classes(low, high)
        at_first = fits(first) & (steps >= 0)
        period = candidates.period
        best = self.bisect(lambda k: fits(first + k * period), first * 0, steps)
        found = self.arrays.pick(at_first, first + best * period, NONE)
        found = self.arrays.xp.max(found, axis=candidates.axis, keepdims=True)
        return self.arrays.pick(at_high, high, found)

    def _count(self, state: State, index: int) -> Array:
        low, high = state.low[index], state.high[index]
        if high is None:
            high = self.most_requests(state, index)
        return self.bisect(lambda n: self.possible(state.with_low(index, n)), low, high)

    def _chunk(self, state: State) -> Array:
        if self.tile.uses_chunk:
            return self.bisect(
                lambda at: self.possible(state._replace(chunk=at)), state.chunk, state.chunk_most
            )
        usable = self.usable(state)
        return self.bisect(
            lambda at: self.some(self.tile.fits(usable, at, state.experts)),
            state.chunk,
            state.chunk_most,
        )

    def _experts(self, state: State) -> Array:
        assert self.instance.experts is not None
        usable = self.usable(state)
        high: Integers | None = self.instance.experts.most
        if high is None:
            high = self.most_slots()
        return self.bisect(
            lambda slots: self.some(self.tile.fits(usable, state.chunk, slots)),
            state.experts,
            high,
        )

    def _blocks(self, state: State, pool: int) -> Array:
        """Inverse of the bytes of the budgets, over every least demand of the others."""
        usable = self.usable(state)
        rests = self.tile.rests(usable, state.chunk, state.experts)
        most = self.tile.most_in(pool, rests, usable[pool])
        most = self.arrays.pick(self.tile.fits(usable, state.chunk, state.experts), most, NONE)
        for axis in range(1, self.tile.layout.axes - 1):
            most = self.arrays.xp.max(most, axis=axis, keepdims=True)
        return most

    def _copies(self, state: State, batch: int) -> Array:
        capacity, count = self.demands(state)
        usable = self.tile.usable(state, capacity, count, state.chunk)
        raw = self.tile.needs.batch(batch, capacity, count, state.chunk)

        def fits(copies: Array) -> Array:
            raised = self.tile.raised(usable, raw, copies)
            return self.some(self.tile.fits(raised, state.chunk, state.experts))

        return self.bisect(fits, state.copies[batch], self._most_times(raw))

    # --- upper ends where only the quota gives one -----------------------------------------------

    def most_requests(self, state: State, index: int) -> Array:
        """How often a request goes into the emptiest budgets, with everything at its least."""
        batch = self.tile.needs.moving[self.instance.fitted[index].batch]
        own = batch.own(index, self.tile.capacity[index], state.chunk)
        return self._most_times(own)

    def _most_times(self, raw: list[Integers]) -> Array:
        """How often a raw need goes into the emptiest budgets: the least over pools."""
        most: Integers = UNBOUNDED
        for pool, blocks in enumerate(raw):
            if isinstance(blocks, int) and blocks == 0:
                continue
            num, den = self.tile.use[pool]
            held = self._most_blocks(pool)
            if isinstance(held, int) and held == UNBOUNDED:
                continue
            times = held * num // (den * self.arrays.greatest(blocks, 1))
            if not isinstance(blocks, int):
                times = self.arrays.pick(blocks > 0, times, UNBOUNDED)
            most = self.arrays.smallest(most, times)
        most = self.arrays.array(most)
        for axis in range(most.ndim - 1):
            if most.shape[axis] > 1:
                most = self.arrays.xp.max(most, axis=axis, keepdims=True)
        return most

    def _most_blocks(self, pool: int) -> Integers:
        """Usable blocks of one pool with every budget to itself."""
        rule = self.instance.pools[pool]
        highest: Integers = UNBOUNDED if rule.most is None else rule.most
        for budget, limit in zip(self.tile.layout.budgets, self.tile.limits, strict=True):
            if budget.pools and budget.pools[pool]:
                most = most_blocks(self.arrays, limit, budget.pools[pool]) - rule.reserved
                highest = self.arrays.smallest(highest, self.arrays.greatest(most, 0))
        return highest

    def most_slots(self) -> Integers:
        """Slots with every budget that lends none to itself."""
        experts = self.instance.experts
        assert experts is not None
        least = min(size for _, size in experts.sizes)
        highest: Integers = UNBOUNDED
        for budget, limit in zip(self.tile.layout.budgets, self.tile.limits, strict=True):
            if budget.layers and not budget.lent:
                most = self.arrays.greatest(limit, 0) // (budget.layers * least)
                highest = self.arrays.smallest(highest, most)
        return highest
