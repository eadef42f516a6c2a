"""Layers of the widest group on each pipeline stage: every choice that can be the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm

Vector = tuple[int, ...]
"""Layers of the widest group, by stage."""


def width_vectors(
    most: Sequence[int], quotas: Sequence[int], own_bytes: Sequence[int]
) -> list[Vector]:
    """Widths by stage of which one is the best, whatever the page and the blocks.

    T bytes, or n copies within the quotas Q, leave stage s with own pools of O bytes the width
    floor((T - O) / (P N)), or floor((Q - n O) / (P (reserved + n N))). Both are
    floor(Q v - O u), with Q = 1 where bytes count: each vector of it over v, u >= 0 is listed.
    Lower v until a stage b is just met: Q v = w + O u there, and the others only step with u.

    Parameters
    ----------
    most : layers of the largest part on each stage.
    quotas : bytes of each stage; empty where bytes count.
    own_bytes : of a copy in pools of their own, on each stage.
    """
    limits = tuple(quotas) or (1,) * len(most)
    found: set[Vector] = set()
    for pivot, limit in enumerate(limits):
        if limit:
            sweep = _Sweep(pivot, most, limits, own_bytes)
            for width in range(1, most[pivot] + 1):
                found.update(sweep.vectors(width))
    return sorted(found) or [tuple(max(1, layers) for layers in most)]


class _Sweep:
    """Vectors with a stage just met, as u grows: (Q w / Q_b) + slope x u on every other stage.

    Attributes
    ----------
    scale : common denominator of all steps: u is counted in 1 / scale.
    """

    def __init__(
        self, pivot: int, most: Sequence[int], limits: Sequence[int], own_bytes: Sequence[int]
    ) -> None:
        self.pivot, self.most, self.limits = pivot, most, limits
        limit, own = limits[pivot], own_bytes[pivot]
        self.slopes = [q * own - o * limit for q, o in zip(limits, own_bytes, strict=True)]
        self.scale = lcm(*(abs(slope) or 1 for slope in self.slopes))

    def vectors(self, width: int) -> Iterator[Vector]:
        """Vectors at and between the steps, for one width on the pivot."""
        start = [limit * width // self.limits[self.pivot] for limit in self.limits]
        now = list(start)
        steps = sorted(self._steps(width, start))
        yield from self._legal(now)
        for at, (u, narrows, stage, wide) in enumerate(steps):
            now[stage] = wide
            if wide < 1 and self.most[stage]:
                return  # it only narrows from here
            if at + 1 == len(steps) or steps[at + 1][:2] != (u, narrows):
                yield from self._legal(now)

    def _steps(self, width: int, start: Sequence[int]) -> Iterator[tuple[int, bool, int, int]]:
        """(u, narrows, stage, width): so wide from u on, or, where it narrows, behind u.

        Widths beyond the layers are all alike, so their steps are left out.
        """
        limit = self.limits[self.pivot]
        for stage, slope in enumerate(self.slopes):
            first = min(start[stage], self.most[stage])
            wider = range(start[stage] + 1, self.most[stage] + 1)
            narrower = range(first, 0, -1)
            for wide in wider if slope > 0 else narrower if slope < 0 else ():
                u = (wide * limit - self.limits[stage] * width) * self.scale // slope
                yield u, slope < 0, stage, wide - (slope < 0)

    def _legal(self, vector: Sequence[int]) -> Iterator[Vector]:
        pairs = list(zip(vector, self.most, strict=True))
        if all(wide >= 1 or not layers for wide, layers in pairs):
            yield tuple(max(1, min(wide, layers)) for wide, layers in pairs)
