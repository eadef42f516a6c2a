"""The most valuable experts that fit into a room: kinds with a number each, exact."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

import numpy as np

MOST_NODES = 2_000
MOST_UNITS = 1 << 16  # of the common divisor of the bytes: a table up to here
MOST_BITS = 1 << 20
MOST_KINDS = 64  # that a branch takes apart
MOST_CELLS = 1 << 24  # of a table


class Item(NamedTuple):
    """Alike things to choose from."""

    bytes: int
    gain: int
    number: int


class Choice(NamedTuple):
    """How many of each item are taken.

    Attributes
    ----------
    bound : no choice gains more; equal to the gain where the choice is exact.
    """

    taken: tuple[int, ...]
    gain: int
    bound: int

    @property
    def is_exact(self) -> bool:
        """Whether nothing gains more."""
        return self.gain == self.bound


def best_choice(items: Sequence[Item], room: int) -> Choice:
    """Choose for the largest gain.

    First by gain per byte, with the bound of the fractional choice; then a branch over the kinds;
    last a table over bytes / their common divisor. `is_exact` says whether one of them closed.

    Parameters
    ----------
    items : of positive gain.
    """
    rates = [gain_a_byte(item.bytes, item.gain) for item in items]
    order = sorted(range(len(items)), key=lambda at: (rates[at], items[at].bytes), reverse=True)
    sorted_items = [items[at] for at in order]
    branch = _Branch(sorted_items)
    taken = branch.greedy(room)
    gain, bound = branch.worth(taken), branch.bound(0, room)
    if gain < bound:
        taken, gain, bound = branch.closed(room, taken, gain, bound)
    found = [0] * len(items)
    for at, count in zip(order, taken, strict=True):
        found[at] = count
    return Choice(tuple(found), gain, bound)


def gain_a_byte(bytes_: int, gain: int) -> int:
    """Sort key, exact below 2^48 bytes: two such rates differ by more than 2^-96."""
    return (gain << 96) // bytes_ if bytes_ else 1 << 200


class _Branch:
    """Items by falling gain per byte."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items, self.nodes = items, 0
        self.units, unit = list[int](), 0
        for item in reversed(items):
            unit = gcd(unit, item.bytes)
            self.units.insert(0, unit)
        self.taken = [0] * len(items)

    def greedy(self, room: int) -> tuple[int, ...]:
        """As many of each as still fit, best first."""
        taken = []
        for item in self.items:
            count = min(item.number, room // item.bytes) if item.bytes else item.number
            room -= count * item.bytes
            taken.append(count)
        return tuple(taken)

    def worth(self, taken: Sequence[int]) -> int:
        """Gain of a choice."""
        return sum(i.gain * n for i, n in zip(self.items, taken, strict=True))

    def bound(self, first: int, room: int) -> int:
        """The fractional choice in room that sums of bytes can fill: their common divisor's."""
        unit = self.units[first] if first < len(self.units) else 0
        return self.fractional(first, room // unit * unit if unit else room)

    def fractional(self, first: int, room: int) -> int:
        """Gain of the fractional choice from an item on, rounded down."""
        gain = 0
        for item in self.items[first:]:
            if item.number * item.bytes > room:
                return gain + room * item.gain // item.bytes
            gain, room = gain + item.number * item.gain, room - item.number * item.bytes
        return gain

    def closed(
        self, room: int, taken: tuple[int, ...], gain: int, bound: int
    ) -> tuple[tuple[int, ...], int, int]:
        """A better choice and its bound: equal where a branch or a table proves it."""
        unit = self.units[0]
        left = min(room, sum(item.bytes * item.number for item in self.items)) // unit
        one = self.items[0]
        alike = all(i.gain * one.bytes == one.gain * i.bytes for i in self.items)
        if alike and left <= MOST_BITS:
            taken = self._largest_sum(left, unit)
            return taken, self.worth(taken), self.worth(taken)
        return self._core(room, taken, gain, bound)

    def _core(
        self, room: int, taken: tuple[int, ...], gain: int, bound: int
    ) -> tuple[tuple[int, ...], int, int]:
        """The same for the few items that may differ from the fractional choice.

        An item of another rate than the one that is taken in part loses the difference, each time
        that it is taken instead or left; all together lose less than the bound is above the gain.
        """
        last, left = 0, room // self.units[0] * self.units[0] if self.units[0] else room
        while self.items[last].number * self.items[last].bytes <= left:
            left -= self.items[last].number * self.items[last].bytes
            last += 1
        one, free, fixed = self.items[last], list[int](), list[int]()
        for at, item in enumerate(self.items):
            loss = abs(item.gain * one.bytes - one.gain * item.bytes)
            most = (bound - gain) * one.bytes // loss if loss else item.number
            free.append(min(item.number, most))
            fixed.append(item.number - free[-1] if at < last else 0)
        rest = room - sum(i.bytes * n for i, n in zip(self.items, fixed, strict=True))
        core = [at for at, number in enumerate(free) if number]
        branch, own = _Branch([self.items[at]._replace(number=free[at]) for at in core]), gain
        beside = self.worth(fixed)
        found, most = branch.searched(rest, bound - beside)
        if beside + branch.worth(found) >= gain:
            for at, number in zip(core, found, strict=True):
                fixed[at] += number
            taken, own = tuple(fixed), self.worth(fixed)
        return taken, own, max(own, beside + most)

    def searched(self, room: int, bound: int) -> tuple[tuple[int, ...], int]:
        """A choice and its bound, by a branch or a table; as told where both are too much."""
        taken = self.greedy(room)
        gain, unit = self.worth(taken), self.units[0] or 1
        left = min(room, sum(item.bytes * item.number for item in self.items)) // unit
        if len(self.items) > MOST_KINDS:
            self.nodes = MOST_NODES + 1
        self.best, self.most, self.ceiling = taken, gain, bound
        self._descend(0, room, 0)
        if self.nodes <= MOST_NODES:
            return self.best, self.most
        if left <= MOST_UNITS and left * len(self.items) <= MOST_CELLS:
            taken = self._tabled(left, unit)
            return taken, self.worth(taken)
        return self.best, bound

    def _descend(self, at: int, room: int, gain: int) -> None:
        """Every count of an item from the most down, while the bound is above the best."""
        if gain > self.most:
            self.best, self.most = (*self.taken[:at], *(0,) * (len(self.items) - at)), gain
        if at == len(self.items) or self.nodes > MOST_NODES or self.most >= self.ceiling:
            return
        self.nodes += 1
        item = self.items[at]
        most = min(item.number, room // item.bytes) if item.bytes else item.number
        for count in range(most, -1, -1):
            left, won = room - count * item.bytes, gain + count * item.gain
            if won + self.fractional(at + 1, left) <= self.most:
                break
            if won + self.bound(at + 1, left) <= self.most:
                continue
            self.taken[at] = count
            self._descend(at + 1, left, won)
        self.taken[at] = 0

    def _largest_sum(self, left: int, unit: int) -> tuple[int, ...]:
        """Alike gain per byte: the largest sum of bytes, as a set of bits."""
        sums, steps = 1, list[tuple[int, int, int]]()
        mask = (1 << left + 1) - 1
        for at, number, width in portions(self.items, unit):
            steps.append((at, number, sums))
            sums |= sums << width & mask
        total, taken = sums.bit_length() - 1, [0] * len(self.items)
        for at, number, before in reversed(steps):
            if not before >> total & 1:
                taken[at] += number
                total -= number * self.items[at].bytes // unit
        return tuple(taken)

    def _tabled(self, left: int, unit: int) -> tuple[int, ...]:
        """The best gain at every sum of bytes."""
        wide = sum(item.gain * item.number for item in self.items) >= 2**62
        dtype: Any = object if wide else np.int64
        best, steps = np.zeros(left + 1, dtype=dtype), list[tuple[int, int, Any]]()
        for at, number, width in portions(self.items, unit):
            gain = number * self.items[at].gain
            if width > left:
                continue
            raised = best.copy()
            np.maximum(raised[width:], best[: left + 1 - width] + gain, out=raised[width:])
            steps.append((at, number, raised > best))
            best = raised
        taken = [0] * len(self.items)
        for at, number, is_raised in reversed(steps):
            if is_raised[left]:
                taken[at] += number
                left -= number * self.items[at].bytes // unit
        return tuple(taken)


def portions(items: Sequence[Item], unit: int) -> list[tuple[int, int, int]]:
    """Position, number and width: counts as 1, 2, 4, ... and a rest, which make every number."""
    found = []
    for at, item in enumerate(items):
        left, part = item.number, 1
        while left:
            number = min(part, left)
            found.append((at, number, number * item.bytes // unit))
            left, part = left - number, 2 * part
    return found
