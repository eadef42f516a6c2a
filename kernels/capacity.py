"""Where the token-exact optimum of a fitted capacity can stand, and where its need is least.

As C grows by one with C - H fixed, a need rises only just after a *stepping* point and falls only
at a *falling* point; within one residue class modulo the period of the live windows it never
falls. So the largest C that fits is the requested one or a stepping point, found by one bisection
a class; and the least needs stand at the lower bound or at a falling point of the first period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import gcd, lcm

from kvplan.kernels.instance import LIVE, Instance
from kvplan.kernels.periods import falling_periods, stepping_periods

Fits = Callable[[int], bool]
MANY_CLASSES = 16
MOST_POINTS = 20_000


def bisect_largest(fits: Fits, low: int, high: int) -> int:
    """Largest n in [low, high] that fits, given that `low` does and that fitting is monotone."""
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def largest_unbounded(fits: Fits, low: int, high: int | None) -> int:
    """`bisect_largest` where no upper end may be known: it is found by doubling."""
    if high is not None:
        return low if low >= high else bisect_largest(fits, low, high)
    span = 1
    while fits(low + span):
        low, span = low + span, span * 2
    return bisect_largest(fits, low, low + span - 1)


class CapacityGrid:
    """Residue classes of one fitted request."""

    def __init__(self, instance: Instance, fitted: int, *, every_token: bool = False) -> None:
        live = [rule.block_tokens for rule in instance.caches if rule.kind == LIVE]
        self.period = lcm(*live) if live else 1
        self._falling = falling_periods(instance, fitted)
        # Under a linear constraint any token may be the last one that is allowed.
        self._stepping = [(1, 0)] if every_token else stepping_periods(instance, fitted)
        self.lows = lru_cache(maxsize=64)(self._lows)

    def _lows(self, low: int, high: int) -> tuple[int, ...]:
        """Capacities in [low, high] among which the least needs stand.

        `low` itself, and every falling point of the period after it.
        """
        end = min(high, low + self.period)
        points = {low}
        for t, offset in self._falling:
            points.update(range(low + 1 + (offset - low - 1) % t, end + 1, t))
        return tuple(sorted(points))

    def largest(
        self,
        fits: Fits,
        low: int,
        high: int,
        *,
        may_fit: Fits | None = None,
        sure_fits: Fits | None = None,
    ) -> int | None:
        """Largest C in [low, high] that fits, or None.

        Parameters
        ----------
        may_fit, sure_fits : monotone bounds of `fits` from above and from below. Where there are
            many classes they leave a short range, whose stepping points are tried from the top.
        """
        if fits(high):
            return high
        best = None
        if may_fit is not None and sure_fits is not None and self.has_many_classes:
            if not may_fit(low):
                return None
            high = bisect_largest(may_fit, low, high - 1) + 1
            if sure_fits(low):
                best = low = bisect_largest(sure_fits, low, high - 1)
            if (high - low) * self.points_a_period <= MOST_POINTS * self.period:
                return self._last_point(fits, low, high, best)
        for residue in self.classes():
            start = low if best is None else best + 1
            first = start + (residue - start) % self.period
            if first >= high or not fits(first):
                continue
            best = self._bisect_class(fits, first, high)
        return best

    @property
    def points_a_period(self) -> int:
        """Stepping points in one period, at most."""
        return sum(max(1, self.period // t) for t, _ in self._stepping)

    @property
    def has_many_classes(self) -> bool:
        """Whether bisecting every class would take long."""
        return self.points_a_period > MANY_CLASSES

    def _last_point(self, fits: Fits, low: int, high: int, best: int | None) -> int | None:
        """The last stepping point in (low, high) that fits; `best` if none does."""
        points = {
            point
            for t, offset in self._stepping
            for point in range(low + (offset - low) % t, high, t)
        }
        return next((point for point in sorted(points, reverse=True) if fits(point)), best)

    def _bisect_class(self, fits: Fits, first: int, high: int) -> int:
        """Largest C below `high` in the residue class of `first`, which fits."""
        period = self.period
        steps = (high - 1 - first) // period
        return first + period * bisect_largest(lambda k: fits(first + k * period), 0, steps)

    def classes(self) -> Iterator[int]:
        """Residues modulo the period that hold a stepping point."""
        seen: set[int] = set()
        for t, offset in self._stepping or [(1, 0)]:
            stride = gcd(t, self.period)
            for residue in range(offset % stride, self.period, stride):
                if residue not in seen:
                    seen.add(residue)
                    yield residue


def low_points(instance: Instance, fitted: int) -> int:
    """How many capacities `CapacityGrid.lows` would list, at most."""
    request = instance.fitted[fitted]
    live = [rule.block_tokens for rule in instance.caches if rule.kind == LIVE]
    span = min((request.most or 0) - request.least, lcm(*live) if live else 1)
    return sum(span // t + 1 for t, _ in falling_periods(instance, fitted))
