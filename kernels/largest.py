"""The one step of every search: the largest value that still fits.

A guess, then a gallop, then a bisection, on whatever evaluates a value. The answer is exact
whatever the guess, so a guess can cost time and never be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

GUESSES = 4


class Sample(NamedTuple):
    """One value evaluated."""

    at: int
    fits: bool
    blocks: tuple[int, ...] = ()  # allocated, of every pool that moves
    bytes: tuple[int, ...] = ()  # by layout


Probe = Callable[[int, Sample, Sample], Sample]
"""A value evaluated between two samples: what is equal in both stands still in between."""
Guess = Callable[[Sample, Sample], int | None]
"""The last value that fits, guessed from two samples; None where they say nothing."""


def largest(
    probe: Probe, low: Sample, high: Sample, guess: Guess, last: Sample | None = None
) -> Sample:
    """The last sample that fits in [low, high), where low fits and high does not.

    Between them a value that does not fit is never followed by one that does.

    Parameters
    ----------
    last : a sample between them that is known.
    """
    top = high
    if last is None:
        last = top
    elif last.fits:
        low = last
    else:
        high = last
    for _ in range(GUESSES):
        if high.at - low.at < 2:
            return low
        wanted = guess(low if last is top else last, top)
        if wanted is not None and wanted < low.at and high is not top:
            wanted = guess(low, high)  # the line from above says nothing down here
        if wanted is None:
            break
        is_rough = last is top
        last = probe(min(max(wanted, low.at + 1), high.at - 1), low, high)
        if last.fits:
            low = last
        else:
            high = last
        if last.fits and not is_rough and low.at + 1 < high.at:
            # The second guess is mostly right: its neighbour tells.
            beside = probe(low.at + 1, low, high)
            if not beside.fits:
                return low
            low = last = beside
    return _bisected(probe, *_galloped(probe, low, high, last))


def _galloped(probe: Probe, low: Sample, high: Sample, last: Sample) -> tuple[Sample, Sample]:
    """A narrower interval, from the side of the last guess in growing steps."""
    step = 1
    while high.at - low.at > 2 * step:
        sample = probe(low.at + step if last.fits else high.at - step, low, high)
        if sample.fits:
            low = sample
        else:
            high = sample
        if sample.fits != last.fits:
            break
        step *= 2
    return low, high


def _bisected(probe: Probe, low: Sample, high: Sample) -> Sample:
    while high.at - low.at > 1:
        sample = probe((low.at + high.at) // 2, low, high)
        if sample.fits:
            low = sample
        else:
            high = sample
    return low


def bisect_largest(fits: Callable[[int], bool], low: int, high: int) -> int:
    """Largest n in [low, high] that fits, given that `low` does and that fitting is monotone."""
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
