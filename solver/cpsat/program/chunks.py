"""The prefill chunk: a literal for each candidate, or its index where there are many.

A figure by chunk is a table. Over an index it is cut into the fewest stretches on which it is a
straight line, rounded down or not: bytes by token are one stretch, a jump in a table makes another.
Thousands of candidates then take a handful of literals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from kvplan.solver.cpsat.model.constraint_rows import ContradictionError
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear, constant, total

MOST_LITERALS = 16


class Stretch(NamedTuple):
    """Indices on which a figure is value + floor((num x (index - first) + offset) / den)."""

    first: int
    last: int
    value: int
    num: int
    den: int = 1
    offset: int = 0


class Chunks(NamedTuple):
    """The choice among `number` candidates."""

    number: int
    literals: tuple[Linear, ...]  # by candidate; empty where the index stands for them
    place: Linear

    def chosen(self, value: Callable[[Linear], int]) -> int:
        """The candidate that holds, given the values of forms."""
        if not self.literals:
            return value(self.place)
        return next(index for index, literal in enumerate(self.literals) if value(literal))

    def table(self, model: Model, values: Sequence[int]) -> Linear:
        """The figure of the chosen candidate; `values` by candidate, those beyond it unused."""
        values = values[: self.number]
        if self.literals:
            return model.table([*self.literals], values)
        unit = gcd(*[b - a for a, b in pairwise(values)]) or 1  # pages of a granule, often
        scaled = [(value - values[0]) // unit for value in values]
        return total([(unit, self._scaled(model, scaled)), (1, constant(values[0]))])

    def _scaled(self, model: Model, values: Sequence[int]) -> Linear:
        """The figure of the index, in whole units above that of the first candidate."""
        stretches = lines(values)
        if len(stretches) == 1 and stretches[0].den == 1:
            return total([(stretches[0].num, self.place)])
        return model.shared(
            ("stretches", self.place, *values), lambda: self._pieced(model, values, stretches)
        )

    def tabled(self, model: Model, values: Sequence[int]) -> Linear:
        """The same as a variable of its own, so that its range is tight."""
        if self.literals:
            return model.tabled([*self.literals], values[: self.number])
        return self.table(model, values)

    def times(self, model: Model, values: Sequence[int], factor: Linear) -> Linear:
        """factor x the figure of the chosen candidate; the factor is not below 0."""
        form = self.table(model, values)
        if not self.literals:
            return model.product(factor, form)
        hint = model.value(factor) * model.value(form)
        least, most = min(values) * model.low(factor), max(values) * model.high(factor)
        product = model.integer(least, most, hint)
        for value, literal in zip(values, self.literals, strict=True):
            model.bound(total([(1, product), (-value, factor)]), 0, 0, when=literal)
        return product

    def _pieced(self, model: Model, values: Sequence[int], stretches: Sequence[Stretch]) -> Linear:
        """A variable that follows the line of the stretch that holds."""
        at = model.value(self.place)
        result = model.integer(min(values), max(values), values[at])
        if len(stretches) == 1:
            self._follow(model, result, stretches[0])
            return result
        holding = next(n for n, stretch in enumerate(stretches) if at <= stretch.last)
        for stretch, literal in zip(stretches, model.one_of(len(stretches), holding), strict=True):
            model.bound(self.place, stretch.first, stretch.last, when=literal)
            self._follow(model, result, stretch, when=literal)
        return result

    def _follow(
        self, model: Model, result: Linear, stretch: Stretch, when: Linear | None = None
    ) -> None:
        """den (result - value) <= num (index - first) + offset, and by less than den below it."""
        most = stretch.den * stretch.value - stretch.num * stretch.first + stretch.offset
        rest = total([(stretch.den, result), (-stretch.num, self.place)])
        model.bound(rest, most - stretch.den + 1, most, when=when)


def create_chunks(model: Model, count: int, hint: int) -> Chunks:
    """The choice among the first `count` candidates.

    Raises
    ------
    ContradictionError : there is none.
    """
    if count < 1:
        raise ContradictionError
    if count > MOST_LITERALS:
        return Chunks(count, (), model.integer(0, count - 1, hint))
    return Chunks(count, tuple(model.one_of(count, hint)), constant(0))


def lines(values: Sequence[int]) -> list[Stretch]:
    """The fewest stretches on which the values are straight lines, rounded or not."""
    found: list[Stretch] = []
    first = 0
    while first < len(values):
        found.append(_longest(values, first))
        first = found[-1].last + 1
    return found


def _longest(values: Sequence[int], first: int) -> Stretch:
    """The longest stretch from an index on."""
    last = min(first + 1, len(values) - 1)
    step = values[last] - values[first]
    while last + 1 < len(values) and values[last + 1] - values[last] == step:
        last += 1
    if last + 1 < len(values):
        other = values[last + 1] - values[last]
        if abs(other - step) == 1:
            return _rounded(values, first, min(step, other))
    return Stretch(first, last, values[first], step)


def _rounded(values: Sequence[int], first: int, least: int) -> Stretch:
    """The longest rounded line from an index on, whose steps are `least` or one more.

    Less `least` a step its points (x, y) are those of a digital line mu <= a x - b y < mu + b,
    recognised point by point: the first and last leaning points on either side decide a slope.
    """
    a, b, mu = 0, 1, 0
    x = y = 0
    above = beneath = (0, 0), (0, 0)  # first and last leaning point
    for index in range(first + 1, len(values)):
        rise = values[index] - values[index - 1] - least
        rest = a * (x + 1) - b * (y + rise)
        if rise not in (0, 1) or not mu - 1 <= rest <= mu + b:
            break
        x, y = x + 1, y + rise
        if rest == mu - 1:
            above, beneath = (above[0], (x, y)), (beneath[1], beneath[1])
            a, b = y - above[0][1], x - above[0][0]
            mu = a * x - b * y
        elif rest == mu + b:
            above, beneath = (above[1], above[1]), (beneath[0], (x, y))
            a, b = y - beneath[0][1], x - beneath[0][0]
            mu = a * x - b * y - b + 1
        else:
            if rest == mu:
                above = above[0], (x, y)
            if rest == mu + b - 1:
                beneath = beneath[0], (x, y)
    return Stretch(first, first + x, values[first], least * b + a, b, -mu)
