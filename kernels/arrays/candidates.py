"""Where a fitted capacity's optimum can stand, and where its need is least, as arrays.

The residue classes and falling points are those of `residues.Residues`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.arrays.arrays import Array, Arrays, Integers
from kvplan.kernels.instance import Instance
from kvplan.kernels.residues import Residues, falling, live_period


def falling_points(instance: Instance, fitted: int) -> list[tuple[int, int, int]]:
    """(t, offset, step): low + 1 + ((offset - low - 1) mod t) + step, after any low."""
    period = live_period(instance)
    return [
        (t, offset, step) for t, offset in falling(instance, fitted) for step in range(0, period, t)
    ]


class Candidates:
    """Candidates of one fitted capacity, along an axis of their own.

    Parameters
    ----------
    axis : of the capacity, in arrays of `axes` axes.
    """

    def __init__(
        self, arrays: Arrays, instance: Instance, fitted: int, axis: int, axes: int
    ) -> None:
        self.arrays, self.axis, self.axes = arrays, axis, axes
        classes = Residues(instance, fitted)
        self.period, self.residues = classes.period, classes.classes
        self._falling = falling_points(instance, fitted)
        self.points = 1 + len(self._falling)

    def _along(self, values: Sequence[int]) -> Array:
        """A column of integers along the capacity's axis."""
        shape = [1] * self.axes
        shape[self.axis] = len(values)
        return self.arrays.xp.reshape(self.arrays.ints(values), tuple(shape))

    def lows(self, low: Array, high: Array) -> Array:
        """Capacities among which the least needs stand: `low` and the falling points after it.

        Points beyond `high` or the first period are given as `low` again.
        """
        if not self._falling:
            return low
        stride, offset, step = map(self._along, zip(*self._falling, strict=True))
        points = low + 1 + (offset - low - 1) % stride + step
        points = self.arrays.pick(points <= high, points, low)
        return self.arrays.xp.concat(self._together(low, points), axis=self.axis)

    def classes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """(first capacity, steps above it) of every residue class, `high` apart.

        A class without a capacity in [low, high) has -1 steps and begins at `low`.
        """
        first = low + (self._along(self.residues) - low) % self.period
        steps = (high - 1 - first) // self.period
        return self.arrays.pick(first < high, first, low), steps

    def _together(self, low: Integers, points: Array) -> list[Array]:
        """Both with equal lengths on all other axes."""
        shape = list(points.shape)
        shape[self.axis] = 1
        return [self.arrays.xp.broadcast_to(low, tuple(shape)), points]
