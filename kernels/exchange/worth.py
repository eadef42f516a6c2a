"""What values are worth, scaled to integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm

import numpy as np

from kvplan.kernels.exchange.arrays import Integers, UnsuitedError
from kvplan.kernels.instance import Curve, ObjectiveTerm

SAFE_WORTH = 1 << 50


def scale_of(instance: Sequence[ObjectiveTerm]) -> int:
    """What makes the worth of every integer value of every term an integer."""
    lines = [line for term in instance for line in _lines(term)]
    return lcm(*(part.denominator for line in lines for part in line[1:]))


def worth_of(term: ObjectiveTerm, values: Integers, scale: int) -> Integers:
    """scale x weight x curve(value), exactly."""
    lines = _lines(term)
    slopes = [int(slope * scale) for _, slope, _ in lines]
    starts = [int(start * scale) for _, _, start in lines]
    top = max(1, int(values[-1])) if len(values) else 1
    if max(abs(s) * top + abs(b) for s, b in zip(slopes, starts, strict=True)) >= SAFE_WORTH:
        raise UnsuitedError
    ends = np.array([end for end, _, _ in lines if end is not None], dtype=np.int64)
    piece = np.searchsorted(ends, values, side="left")
    worth: Integers = np.array(slopes, dtype=np.int64)[piece] * values
    return worth + np.array(starts, dtype=np.int64)[piece]


def _lines(term: ObjectiveTerm) -> list[tuple[int | None, Fraction, Fraction]]:
    """(last value, slope, worth at 0) of every piece of weight x curve; the last is open."""
    if term.curve is None:
        return [(None, term.weight, Fraction(0))]
    curve: Curve = tuple((x, term.weight * y) for x, y in term.curve)
    lines: list[tuple[int | None, Fraction, Fraction]] = [
        (int(curve[0][0] // 1), Fraction(0), curve[0][1])
    ]
    for (x0, y0), (x1, y1) in pairwise(curve):
        slope = (y1 - y0) / (x1 - x0)
        lines.append((int(x1 // 1), slope, y0 - slope * x0))
    return [*lines, (None, Fraction(0), curve[-1][1])]
