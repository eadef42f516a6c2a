"""Experts on other cards: a bound by paths, and which cuts can still be better than an answer.

Each card takes of all experts what fits beside its slice, as if no other card took any. Such a path
costs no more than any placement, so a slice through which none is better than an answer that is
known is no slice of a better one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from kvplan.solver.place.search.knapsack import MOST_UNITS, Item, portions
from kvplan.solver.place.search.slice_path import Path
from kvplan.solver.place.search.spread import Spread, Spreading, measure

Ends = tuple[tuple[int, int], ...]
"""First and last slot that may be the first one behind each slice."""


class Cuts(NamedTuple):
    """What can still be better than an answer.

    Attributes
    ----------
    least : no placement has less of the first objective.
    is_closed : none is better.
    """

    ends: Ends
    least: int
    is_closed: bool


class ReachBound:
    """Bounds of every slice where experts may lie on other cards than their layer's."""

    def __init__(self, spread: Spread) -> None:
        assert spread.host is not None
        self.spread, self.path = spread, Path(spread._replace(reach="own"))
        self.far, self.count = self.path.far, self.path.count
        self.numbers = Counter[Any]()
        for slot in spread.slots:
            self.numbers.update(slot.experts)
        self.lows, self.empty = list[Any](), list[int]()
        for at in range(len(spread.spaces)):
            self._add(at)
        places = range(len(self.lows))
        self.before = self._reached(places, forward=True)
        self.behind = self._reached(reversed(places), forward=False)

    def _add(self, at: int) -> None:
        """Costs of slices on a space; of none, what experts alone gain there."""
        path, space = self.path, self.spread.spaces[at]
        if at == self.spread.host:
            self.lows.append(path.lows[at])
            self.empty.append(0)
            return
        room = path.rooms[at]
        beside = max(0, min(space.room, space.load_room) - space.base)
        gain_in = self._gain_in(at, max(int(room.max()), beside))
        apart = path.packed(0, 0, 2 * path.clock.hop * path.differences(path.mixtures), 0)
        cost = path.fallen[at] - apart - gain_in(room)
        self.lows.append(np.where(path.lows[at] >= self.far, self.far, cost))
        self.empty.append(-int(gain_in(np.array([beside]))[0]))

    def _gain_in(self, at: int, most: int) -> Callable[[Any], Any]:
        """The largest gain in a room, by a table over bytes / their common divisor.

        Where that has too many entries, bytes are rounded down to fewer: a bound still.
        """
        gains = self.path.gains[at]
        unit = max(gains.unit, -(-most // MOST_UNITS))
        items = [Item(t.bytes, gains.gains[t], n) for t, n in self.numbers.items()]
        items = [item for item in items if item.gain > 0]
        best = np.zeros(most // unit + 1, dtype=self.path.dtype)
        for index, number, width in portions(items, unit):
            gain = number * items[index].gain
            if width < len(best):
                higher = best[: len(best) - width] + gain
                best = np.concatenate([best[:width], np.maximum(best[width:], higher)])
        return lambda room: best[room // unit]

    def _reached(self, places: Iterable[int], *, forward: bool) -> list[Any]:
        """The cheapest cost up to each slot before a space, or from it on behind one."""
        best = np.full(self.count + 1, self.far, dtype=self.path.dtype)
        best[0 if forward else self.count] = 0
        found = []
        for at in places:
            found.append(best)
            low = self.lows[at] if forward else self.lows[at].T
            through = np.minimum(best[:, None] + low, self.far).min(axis=0)
            best = np.minimum(np.where(best >= self.far, best, best + self.empty[at]), through)
        return found if forward else found[::-1]

    def through(self, at: int) -> tuple[Any, Any]:
        """The cheapest path through each slice [start, end) of a space, and through none there."""
        before, behind = self.before[at], self.behind[at]
        cost = np.minimum(before[:, None] + self.lows[at], self.far)
        none = np.minimum(before + self.empty[at], self.far) + behind
        return np.minimum(cost + behind[None, :], self.far), np.minimum(none, self.far)

    def cost(self, answer: Spreading) -> int:
        """An answer's cost in the units of the bound."""
        told, clock = measure(self.spread, answer), self.path.clock
        ticks = int(told.seconds * clock.per_second) + clock.hop
        packed = self.path.packed(told.layers_off, told.experts_off, ticks, 0)
        return int(packed) + told.spaces

    def gap(self, answer: Spreading, least: int) -> Fraction:
        """Share of the first objective that lies between an answer and its bound."""
        told = measure(self.spread, answer)
        ticks = int(told.seconds * self.path.clock.per_second)
        worth = {"layers_on_gpu": told.layers_off, "experts_on_gpu": told.experts_off}
        cost = worth.get(self.spread.objectives[0], ticks)
        return Fraction(max(0, cost - least), cost) if cost else Fraction(0)

    def cuts(self, answer: Spreading | None) -> Cuts:
        """Cuts of placements that are better than an answer, or of the cheapest path without."""
        places = range(len(self.lows))
        costs = [self.through(at) for at in places]
        least = min(int(min(slices.min(), none.min())) for slices, none in costs)
        most = least + 1 if answer is None else min(self.cost(answer), self.far)
        ends = list[tuple[int, int]]()
        for slices, none in costs:
            where = np.flatnonzero((slices < most).any(axis=0) | (none < most))
            ends.append((int(where[0]), int(where[-1])) if len(where) else (0, 0))
        first = max(self.path.weights.values())
        hop = self.path.clock.hop if self.spread.objectives[0] == "speed" else 0
        return Cuts(tuple(ends), least // first - hop, is_closed=least >= most)
