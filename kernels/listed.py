"""A goal over listed values and one wide variable at most: chunk by chunk, whole ranges at once.

More chunk never leaves more for the wide variable. So between two chunks no more is reached than
the best chunk there is worth by itself, and what the first of them leaves; and where both leave the
same, all between do.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from kvplan.kernels.capacity import bisect_largest
from kvplan.kernels.instance import Objective, ObjectiveTerm
from kvplan.kernels.nested import Search
from kvplan.kernels.values import rises, term_value
from kvplan.kernels.worlds import Bounds

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
    nested: Search, worlds: list[Bounds], goal: Objective
) -> tuple[list[Bounds], Fraction | None]:
    """Try every chunk that matters in every world; the one wide variable is bisected.

    A world is kept for each combination that reaches the best value, the wide variable bounded by
    the least value that still reaches it.
    """
    wide = next((term for term in goal.members if term.variable.kind not in LISTED), None)
    worths = _worths_of(nested, goal)
    best: Fraction | None = None
    scans = []
    for world in worlds:
        base = sum((_choice_worth(world, term) for term in goal.members), Fraction(0))
        scans.append(_Scan(nested, world, wide, base, worths))
        best = scans[-1].run(best)
    if best is None:  # only under constraints whose mending is a guess
        return worlds, None
    winners = [winner for scan in scans for winner in scan.winners(best)]
    if wide is not None:
        return [_hold(nested, world, wide, best - alone) for world, alone in winners], best
    return [world for world, _ in winners], best


def _worths_of(nested: Search, goal: Objective) -> Worths | None:
    """The worths of all chunks; None where the goal leaves the chunk open."""
    instance = [term for term in goal.members if term.variable.kind == "prefill"]
    if not instance:
        return None
    chunks = nested.instance.chunks
    found = [sum((term_value(term, chunk) for term in instance), Fraction(0)) for chunk in chunks]
    scale = lcm(*{worth.denominator for worth in found})
    return Worths(scale, [worth.numerator * (scale // worth.denominator) for worth in found])


def _choice_worth(world: Bounds, term: ObjectiveTerm) -> Fraction:
    if term.variable.kind != "choice":
        return Fraction(0)
    return term_value(term, -world.options[term.variable.position])


class _Scan:
    """The chunks of one world, those that cannot reach the best left out by ranges.

    Parameters
    ----------
    wide : the other variable of the goal, if it has one.
    base : what the world's options are worth.
    worths : of the chunks; None: the chunk stays open, the world is tried as it is.
    """

    def __init__(
        self,
        nested: Search,
        world: Bounds,
        wide: ObjectiveTerm | None,
        base: Fraction,
        worths: Worths | None,
    ) -> None:
        self._nested, self._world, self._wide = nested, world, wide
        self._base, self._worths = base, worths
        self._tops: dict[int, int | None] = {}
        self._values: dict[int, Fraction] = {}  # by chunk

    def run(self, best: Fraction | None) -> Fraction | None:
        """Value what may reach `best`; the most that is reached now."""
        first = self._world.chunk
        if self._top(first) is None:
            return best
        best = self._record(first, best)
        if self._worths is None:
            return best
        last = bisect_largest(
            lambda chunk: self._nested.possible(self._at(chunk)), first, self._world.chunk_most
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
        """The worlds that reach the best, with what is worth without the wide variable."""
        for chunk in sorted(self._values):
            if self._values[chunk] == best:
                yield self._at(chunk), self._alone(self._worth(chunk))

    def _record(self, chunk: int, best: Fraction | None) -> Fraction:
        value = self._values[chunk] = self._value(self._worth(chunk), self._top(chunk))
        return value if best is None else max(best, value)

    def _top(self, chunk: int) -> int | None:
        """The most of the wide variable (0 without one); None where nothing fits."""
        if chunk not in self._tops:
            world = self._at(chunk)
            if self._wide is None:
                self._tops[chunk] = 0 if self._nested.possible(world) else None
            else:
                self._tops[chunk] = self._nested.largest(world, self._wide.variable)
        return self._tops[chunk]

    def _at(self, chunk: int) -> Bounds:
        if self._worths is None:
            return self._world
        return self._world._replace(chunk=chunk, chunk_most=chunk)

    def _worth(self, chunk: int) -> int:
        return 0 if self._worths is None else self._worths.chunks[chunk]

    def _alone(self, worth: int) -> Fraction:
        """What options and a chunk's worth come to."""
        return (
            self._base if self._worths is None else self._base + Fraction(worth, self._worths.scale)
        )

    def _value(self, worth: int, top: int | None) -> Fraction:
        alone = self._alone(worth)
        if self._wide is None or top is None:
            return alone
        return alone + term_value(self._wide, top)


def _hold(nested: Search, world: Bounds, term: ObjectiveTerm, worth: Fraction) -> Bounds:
    """Bound a variable from below by the least value whose worth reaches `worth`."""
    top = nested.largest(world, term.variable)
    if top is None:  # only under constraints whose mending is a guess
        return world
    low, _ = nested.range_of(world, term.variable)
    spare = bisect_largest(lambda less: term_value(term, top - less) >= worth, 0, top - low)
    return nested.at_least(world, term.variable, top - spare)
