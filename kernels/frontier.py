"""The best sums of variables whose worth never falls, on the frontier of what fits.

What fits is closed downwards, so such a sum is best where no variable can grow alone. With two
variables that frontier is walked from one end, and every stretch that cannot reach the best sum
is leapt over: at x the next point needs f(x - 1) + g(y) >= best. A further variable is cut into
ranges; over (z, z'] the others add no more than beside z. Where variables trade at very different
rates a few steps are enough; where they do not, the search gives up at a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil
from typing import NamedTuple

from kvplan.kernels.capacity import bisect_largest
from kvplan.kernels.instance import ObjectiveTerm, Variable
from kvplan.kernels.nested import Search
from kvplan.kernels.values import term_value
from kvplan.kernels.worlds import Bounds

MOST_STEPS = 64
"""Largest values looked up before the search gives up; 0 leaves every such goal unproven."""
MOST_WORLDS = 64
MOST_RECORDS = 4 * MOST_WORLDS
FITTED = ("capacity", "count")


class GaveUpError(Exception):
    """The limit was reached."""


class Reached(NamedTuple):
    """The best value found of a goal, and worlds that reach it."""

    worlds: list[Bounds]
    value: Fraction
    bound: Fraction | None  # no point is worth more, where that was seen
    proven: bool  # the value is the best there is, and the worlds hold every point that reaches it


class Frontier:
    """The best sum found so far, and the worlds that reach it.

    Switch: `by_arrays`, whether all candidates are compared at once where that is possible.
    """

    by_arrays = True

    def __init__(self, nested: Search) -> None:
        self.nested = nested
        self.best: Fraction | None = None
        self.winners: list[Bounds] = []
        # Under linear constraints a step is a bisection over demands that are mended each time.
        self._steps = MOST_STEPS if nested.climbs else MOST_STEPS // 10

        self._known: dict[tuple[Bounds, Variable], int | None] = {}
        self._explored = 0  # worlds whose bounds are known
        self._bound: Fraction | None = None

    def so_far(self, starts: int) -> Reached | None:
        """A world that reaches the best sum found, unproven."""
        if self.best is None:
            return None
        bound = self._bound if self._explored == starts else None
        return Reached(self.winners[:1], self.best, bound, False)

    def _limit(self, bound: Fraction) -> None:
        self._explored += 1
        self._bound = bound if self._bound is None else max(bound, self._bound)

    def explore(self, world: Bounds, base: Fraction, instance: list[ObjectiveTerm]) -> None:
        """Record every optimum of a world whose listed variables are worth `base`."""
        if not instance:
            self._spend()
            self._limit(base)
            if self.nested.possible(world):
                self._record(world, base)
            return
        tops = [self._largest(world, term) for term in instance]
        reached = [(term, top) for term, top in zip(instance, tops, strict=True) if top is not None]
        if len(reached) < len(instance):
            self._explored += 1
            return
        bound = base + sum(term_value(term, top) for term, top in reached)
        self._limit(bound)
        if self.best is not None and bound < self.best:
            return
        if len(instance) > 1 and self.by_arrays and self._exchange(world, base, reached):
            return
        reached.sort(key=lambda entry: self._width(world, *entry))
        need = None if self.best is None else self.best - base
        self._most(world, base, [term for term, _ in reached], need)

    def _exchange(
        self, world: Bounds, base: Fraction, reached: list[tuple[ObjectiveTerm, int]]
    ) -> bool:
        """Compare all candidates at once; False where a goal does not suit arrays."""
        from kvplan.kernels.exchange.arrays import TooManyError, UnsuitedError
        from kvplan.kernels.exchange.build import exchange_of
        from kvplan.kernels.exchange.join import best_combinations
        from kvplan.kernels.exchange.worth import scale_of

        instance = [term for term, _ in reached]
        scale = scale_of(instance)
        try:
            for point in self._points(world, instance):
                arrays = exchange_of(self.nested, world, point, reached, scale)
                need = None if self.best is None else ceil((self.best - base) * scale)
                found = None if arrays is None else best_combinations(arrays, need)
                if arrays is None or found is None:
                    continue
                if len(found.picks) > MOST_WORLDS:
                    raise GaveUpError
                for picks in found.picks:
                    entries = zip(arrays.movers, picks, strict=True)
                    values = [(mover.term, int(mover.values[at])) for mover, at in entries]
                    self._take(world, base, values)
        except UnsuitedError:
            return False
        except TooManyError:
            raise GaveUpError from None
        return True

    def _points(self, world: Bounds, instance: list[ObjectiveTerm]) -> Iterator[tuple[int, ...]]:
        """Least points of the fitted variables that the goal does not weigh."""
        weighed = {term.variable.position for term in instance if term.variable.kind in FITTED}
        return product(
            *(
                (low,) if index in weighed else self.nested._lows(index, world)
                for index, low in enumerate(world.low)
            )
        )

    def _most(
        self, world: Bounds, base: Fraction, instance: list[ObjectiveTerm], need: Fraction | None
    ) -> Fraction | None:
        """The most that the instance add in a world, if that is at least `need`; else None."""
        if len(instance) == 1:
            top = self._largest(world, instance[0])
            if top is None:
                return None
            added = self._take(world, base, [(instance[0], top)])
            return added if need is None or added >= need else None
        if len(instance) == 2:
            return self._walk(world, base, instance[0], instance[1], need)
        return self._cut(world, base, instance, need)

    def _walk(
        self,
        world: Bounds,
        base: Fraction,
        x: ObjectiveTerm,
        y: ObjectiveTerm,
        need: Fraction | None,
    ) -> Fraction | None:
        """The frontier of two variables, from the largest x to the largest y."""
        y_most = self._largest(world, y)
        if y_most is None:
            return None
        x_last = self._beside(world, x, y, y_most)
        at_x = self._beside(world, x, None, 0)
        found = self._take(world, base, [(x, x_last), (y, y_most)])
        while at_x > x_last:
            at_y = self._beside(world, y, x, at_x)
            found = max(found, self._take(world, base, [(x, at_x), (y, at_y)]))
            target = found if need is None else max(found, need)
            further = self._least_worth(y, target - term_value(x, at_x - 1), at_y + 1, y_most)
            if further is None:
                break
            at_x = x_last if further == y_most else self._beside(world, x, y, further)
        return found if need is None or found >= need else None

    def _cut(
        self, world: Bounds, base: Fraction, instance: list[ObjectiveTerm], need: Fraction | None
    ) -> Fraction | None:
        """The first variable by ranges (low, high], each with the most the others could add."""
        z, rest = instance[0], instance[1:]
        high = self._largest(world, z)
        if high is None:
            return None
        low, _ = self.nested.range_of(world, z.variable)
        found: Fraction | None = None
        ranges: list[tuple[int, int, Fraction | None]] = [(low, high, None)]
        ends = [high, low]
        while ranges:
            low, high, others = ranges.pop()
            target = max((v for v in (found, need) if v is not None), default=None)
            if others is not None and target is not None:
                start = self._least_worth(z, target - others, low, high)
                if start is None:
                    continue
                low = start
            if low > high:
                continue
            asked = min(max(ends.pop(0) if ends else (low + high) // 2, low), high)
            chosen = self.nested.at_least(world, z.variable, asked)
            middle, _ = self.nested.range_of(chosen, z.variable)
            if middle > high:  # no legal value from there on
                ranges.append((low, asked - 1, others))
                continue
            worth = term_value(z, middle)
            wanted = None if target is None else target - term_value(z, high)
            added = self._most(chosen, base + worth, rest, wanted)
            if added is not None:
                found = worth + added if found is None else max(found, worth + added)
                ranges.append((middle + 1, high, added))
            ranges.append((low, asked - 1, others))
        return found if need is None or (found is not None and found >= need) else None

    # --- one value ------------------------------------------------------------------------------

    def _spend(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise GaveUpError

    def _largest(self, world: Bounds, term: ObjectiveTerm) -> int | None:
        key = world, term.variable
        if key not in self._known:
            self._spend()
            self._known[key] = self.nested.largest(world, term.variable)
        return self._known[key]

    def _beside(
        self, world: Bounds, term: ObjectiveTerm, other: ObjectiveTerm | None, value: int
    ) -> int:
        """The largest value of a variable beside another's, which it is known to have."""
        if other is not None:
            world = self.nested.at_least(world, other.variable, value)
        top = self._largest(world, term)
        if top is None:  # only under constraints whose mending is a guess
            raise GaveUpError
        return top

    def _width(self, world: Bounds, term: ObjectiveTerm, top: int) -> tuple[bool, int]:
        """Few values first; blocks and slots, which are cheap to look up, last."""
        low, _ = self.nested.range_of(world, term.variable)
        if term.variable.kind == "prefill":
            return False, world.chunk_most - world.chunk
        return term.variable.kind in ("blocks", "experts"), top - low

    @staticmethod
    def _least_worth(term: ObjectiveTerm, worth: Fraction, low: int, high: int) -> int | None:
        """The least value in [low, high] that is worth so much; None if none is."""
        if low > high or term_value(term, high) < worth:
            return None
        if term.curve is None:
            return max(low, int(-(-worth // term.weight)))
        spare = bisect_largest(lambda n: term_value(term, high - n) >= worth, 0, high - low)
        return high - spare

    def _take(
        self, world: Bounds, base: Fraction, reached: list[tuple[ObjectiveTerm, int]]
    ) -> Fraction:
        """What the values of some instance add; the world that has them is recorded."""
        added = sum((term_value(term, value) for term, value in reached), Fraction(0))
        if self.best is None or base + added >= self.best:
            for term, value in reached:
                low, _ = self.nested.range_of(world, term.variable)
                held = self._least_worth(term, term_value(term, value), low, value)
                assert held is not None
                world = self.nested.at_least(world, term.variable, held)
            self._record(world, base + added)
        return added

    def _record(self, world: Bounds, value: Fraction) -> None:
        if self.best is not None and value < self.best:
            return
        if self.best is None or value > self.best:
            self.best, self.winners = value, []
        self.winners.append(world)
        if len(self.winners) > MOST_RECORDS:
            raise GaveUpError
