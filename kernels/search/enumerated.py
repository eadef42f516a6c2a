"""A goal over listed values and one wide variable at most: chunk by chunk, whole ranges at once.

A larger chunk never leaves more for the wide variable. So no chunk between two reaches more than
the worth of the best chunk there plus what the first of them leaves; and where both leave the same,
all between do.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from kvplan.kernels.instance import Objective, ObjectiveTerm
from kvplan.kernels.largest import bisect_largest
from kvplan.kernels.search.bounds import Bounds
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import rises, term_value

LISTED = ("prefill", "choice")
"""Variables with few values: they are listed, not bisected."""


def is_listable(goal: Objective) -> bool:
    """Whether trying every listed value and bisecting one other variable settles a goal."""
    wide = [term for term in goal.members if term.variable.kind not in LISTED]
    return len(wide) <= 1 and all(map(rises, wide))


class Worths(NamedTuple):
    """What each chunk is worth by itself, times one denominator."""

    scale: int
    chunks: list[int]


def raise_listed(
    search: Search, starts: list[Bounds], goal: Objective
) -> tuple[list[Bounds], Fraction | None]:
    """Try every chunk that matters within all bounds; the one wide variable is bisected.

    Bounds are kept for each combination that reaches the best value, the wide variable bounded by
    the least value that still reaches it.
    """
    wide = next((term for term in goal.members if term.variable.kind not in LISTED), None)
    worths = _worths_of(search, goal)
    best: Fraction | None = None
    scans = []
    for bounds in starts:
        base = sum((_choice_worth(bounds, term) for term in goal.members), Fraction(0))
        scans.append(_Scan(search, bounds, wide, base, worths))
        best = scans[-1].run(best)
    if best is None:
        return [], None
    winners = [winner for scan in scans for winner in scan.winners(best)]
    if wide is not None:
        return [_hold(search, bounds, wide, best - alone) for bounds, alone in winners], best
    return [bounds for bounds, _ in winners], best


def _worths_of(search: Search, goal: Objective) -> Worths | None:
    """The worths of all chunks; None where the goal leaves the chunk open."""
    members = [term for term in goal.members if term.variable.kind == "prefill"]
    if not members:
        return None
    chunks = search.shape.chunks
    found = [sum((term_value(term, chunk) for term in members), Fraction(0)) for chunk in chunks]
    scale = lcm(*{worth.denominator for worth in found})
    return Worths(scale, [worth.numerator * (scale // worth.denominator) for worth in found])


def _choice_worth(bounds: Bounds, term: ObjectiveTerm) -> Fraction:
    if term.variable.kind != "choice":
        return Fraction(0)
    return term_value(term, -bounds.options[term.variable.position])


class _Scan:
    """The chunks within bounds, without whole ranges that cannot reach the best.

    Parameters
    ----------
    wide : the other variable of the goal, if it has one.
    base : what the bounds' options are worth.
    worths : of the chunks; None: the chunk stays open, the bounds are tried as they are.
    """

    def __init__(
        self,
        search: Search,
        bounds: Bounds,
        wide: ObjectiveTerm | None,
        base: Fraction,
        worths: Worths | None,
    ) -> None:
        self._search, self._bounds, self._wide = search, bounds, wide
        self._base, self._worths = base, worths
        self._tops: dict[int, int | None] = {}
        self._values: dict[int, Fraction] = {}  # by chunk

    def run(self, best: Fraction | None) -> Fraction | None:
        """Value what may reach `best`; return the most that is reached now."""
        first = self._bounds.chunk
        if self._top(first) is None:
            return best
        best = self._record(first, best)
        if self._worths is None:
            return best
        last = bisect_largest(
            lambda chunk: self._search.possible(self._at(chunk)), first, self._bounds.chunk_most
        )
        best = self._record(last, best)
        ranges = [(first, last)]
        while ranges:
            low, high = ranges.pop()
            if high - low < 2:
                continue
            most = max(self._worths.chunks[low + 1 : high])
            value = self._value(most, self._top(low))
            if best is not None and value < best:
                continue
            if self._top(low) == self._top(high):
                best = value
                alike = range(low + 1, high)
                self._values |= {c: value for c in alike if self._worths.chunks[c] == most}
                continue
            middle = (low + high) // 2
            best = self._record(middle, best)
            ranges += [(low, middle), (middle, high)]
        return best

    def winners(self, best: Fraction) -> Iterator[tuple[Bounds, Fraction]]:
        """The starts that reach the best, with what is worth without the wide variable."""
        for chunk in sorted(self._values):
            if self._values[chunk] == best:
                yield self._at(chunk), self._alone(self._worth(chunk))

    def _record(self, chunk: int, best: Fraction | None) -> Fraction:
        value = self._values[chunk] = self._value(self._worth(chunk), self._top(chunk))
        return value if best is None else max(best, value)

    def _top(self, chunk: int) -> int | None:
        """The most of the wide variable (0 without one); None where nothing fits."""
        if chunk not in self._tops:
            bounds = self._at(chunk)
            if self._wide is None:
                self._tops[chunk] = 0 if self._search.possible(bounds) else None
            else:
                self._tops[chunk] = self._search.largest(bounds, self._wide.variable)
        return self._tops[chunk]

    def _at(self, chunk: int) -> Bounds:
        if self._worths is None:
            return self._bounds
        return self._bounds._replace(chunk=chunk, chunk_most=chunk)

    def _worth(self, chunk: int) -> int:
        return 0 if self._worths is None else self._worths.chunks[chunk]

    def _alone(self, worth: int) -> Fraction:
        """The worth of options and a chunk."""
        return (
            self._base if self._worths is None else self._base + Fraction(worth, self._worths.scale)
        )

    def _value(self, worth: int, top: int | None) -> Fraction:
        alone = self._alone(worth)
        if self._wide is None or top is None:
            return alone
        return alone + term_value(self._wide, top)


def _hold(search: Search, bounds: Bounds, term: ObjectiveTerm, worth: Fraction) -> Bounds:
    """Bound a variable from below by the least value whose worth reaches `worth`."""
    top = search.largest(bounds, term.variable)
    assert top is not None
    low, _ = search.range_of(bounds, term.variable)
    return search.at_least(bounds, term.variable, least_reaching(term, worth, low, top))


def least_reaching(term: ObjectiveTerm, worth: Fraction, low: int, top: int) -> int:
    """Least value in [low, top] that is worth so much, given that `top` is and worth rises."""
    spare = bisect_largest(lambda less: term_value(term, top - less) >= worth, 0, top - low)
    return top - spare
