"""The nearest value of one field with which a problem fits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

from kvplan.solver.formulate.budgets import GIB

Works = Callable[[int], bool]
Classes = Collection[tuple[int, int]]
AUTO_STEPS = tuple(doublings * GIB for doublings in (2, 4, 8, 16))
"""Quotas (bytes) from which an "auto" granule is twice as large."""
_MOST_TRIED = 2048


def nearest(works: Works, most: int, hint: int | None = None) -> int | None:
    """Smallest distance in 1..most that works, where a longer one works too; None if none does.

    Parameters
    ----------
    hint : a guess; a right one costs three tests.
    """
    if most < 1 or not works(most):
        return None
    low, high = 0, most
    if hint is not None and 0 < hint < most:
        if not works(hint):
            low = hint
        elif hint == 1 or not works(hint - 1):
            return hint
        else:
            high = hint - 1
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def nearest_of_classes(works: Works, most: int, classes: Classes) -> int | None:
    """Smallest distance in 1..most that works, where working is monotone within each class.

    Parameters
    ----------
    classes : (first distance, period): first, first + period, ... up to `most`. A distance that
        belongs to no class is never returned.
    """
    best: int | None = None
    for first, period in sorted(classes):
        end = most if best is None else best - 1
        steps = (end - first) // period + 1 if first <= end else 0
        found = nearest(_strided(works, first - period, period), steps)
        if found is not None:
            best = first + (found - 1) * period
    return best


def _strided(works: Works, origin: int, period: int) -> Works:
    return lambda step: works(origin + step * period)


def first_working(works: Works, most: int) -> int | None:
    """The same with no order at all among the distances: each is tried, the nearest first.

    Beyond 2,048 distances the others are searched as if a longer one never failed.
    """
    tried = range(1, min(most, _MOST_TRIED) + 1)
    found = next((distance for distance in tried if works(distance)), None)
    if found is not None or most <= _MOST_TRIED:
        return found
    farther = nearest(_from(works, _MOST_TRIED), most - _MOST_TRIED)
    return None if farther is None else _MOST_TRIED + farther


def stretches(low: int, high: int, steps: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """[low, high] cut where a granule changes: within one stretch more quota holds no less."""
    cuts = [low, *(step for step in steps if low < step <= high), high + 1]
    for start, end in pairwise(cuts):
        if start < end:
            yield start, end - 1


def nearest_in_stretches(
    works: Works, low: int, high: int, steps: tuple[int, ...], hint: int | None = None
) -> int | None:
    """Smallest value in [low, high] that works, on either side of every granule step."""
    for start, end in stretches(low, high, steps):
        guess = None if hint is None else hint - start + 1
        found = nearest(_from(works, start - 1), end - start + 1, guess)
        if found is not None:
            return start + found - 1
    return None


def _from(works: Works, origin: int) -> Works:
    return lambda distance: works(origin + distance)


def less_quota(works: Works, low: int, high: int, steps: tuple[int, ...]) -> int | None:
    """Largest quota in [low, high] that works; it is the last one before a granule step."""
    ends = [end for _, end in stretches(low, high, steps)]
    return next((end for end in reversed(ends) if works(end)), None)
