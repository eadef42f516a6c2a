"""Layers of the widest group on each pipeline stage: every choice that can be the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

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
            for width in range(1, most[pivot] + 1):
                found.update(_vectors(pivot, width, most, limits, own_bytes))
    return sorted(found) or [tuple(max(1, layers) for layers in most)]


def _vectors(
    pivot: int, width: int, most: Sequence[int], limits: Sequence[int], own_bytes: Sequence[int]
) -> Iterator[Vector]:
    """Vectors of one width on the pivot: at and between the steps of every other stage."""
    limit, own = limits[pivot], own_bytes[pivot]
    slopes = [q * own - o * limit for q, o in zip(limits, own_bytes, strict=True)]
    for u in _steps_and_between(pivot, width, most, limits, slopes):
        above, below = u.numerator, u.denominator
        vector = [
            (q * width * below + slope * above) // (limit * below)
            for q, slope in zip(limits, slopes, strict=True)
        ]
        if all(wide >= 1 or not layers for wide, layers in zip(vector, most, strict=True)):
            yield tuple(max(1, min(wide, n)) for wide, n in zip(vector, most, strict=True))


def _steps_and_between(
    pivot: int,
    width: int,
    most: Sequence[int],
    limits: Sequence[int],
    slopes: Sequence[int],
) -> Iterator[Fraction]:
    """Every u at which a width between 1 and its most is a whole number, and one between each."""
    steps = {Fraction(0)}
    for limit, slope, layers in zip(limits, slopes, most, strict=True):
        if slope:
            start = limit * width
            for wide in range(1, layers + 1):
                step = Fraction(wide * limits[pivot] - start, slope)
                if step > 0:
                    steps.add(step)
    ordered = sorted(steps)
    for before, after in pairwise(ordered):
        yield before
        yield (before + after) / 2
    yield ordered[-1]
    yield ordered[-1] + 1
