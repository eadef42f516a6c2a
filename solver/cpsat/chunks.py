"""The prefill chunk: a literal for each candidate, or its index where there are many.

A figure by chunk is a table. Over an index it is cut into the fewest stretches on which it is a
straight line: bytes by token are one stretch, a jump in a table or a page makes another. Thousands
of candidates then take a handful of literals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvplan.solver.cpsat.model import Linear, Model, constant, total

MOST_LITERALS = 16


class Stretch(NamedTuple):
    """Indices first to last, on which a figure is value + slope x (index - first)."""

    first: int
    last: int
    value: int
    slope: int


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
        stretches = straight(values)
        if len(stretches) == 1:
            return _line(stretches[0], self.place)
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
        holding = next(n for n, stretch in enumerate(stretches) if at <= stretch.last)
        result = model.integer(min(values), max(values), values[at])
        for stretch, literal in zip(stretches, model.one_of(len(stretches), holding), strict=True):
            model.bound(self.place, stretch.first, stretch.last, when=literal)
            rest = total([(1, result), (-1, _line(stretch, self.place))])
            model.bound(rest, 0, 0, when=literal)
        return result


def create_chunks(model: Model, count: int, hint: int) -> Chunks:
    """The choice among the first `count` candidates."""
    if count > MOST_LITERALS:
        return Chunks(count, (), model.integer(0, count - 1, hint))
    return Chunks(count, tuple(model.one_of(count, hint)), constant(0))


def straight(values: Sequence[int]) -> list[Stretch]:
    """The fewest stretches on which the values are straight lines, from the left."""
    found: list[Stretch] = []
    first = 0
    while first < len(values):
        last = min(first + 1, len(values) - 1)
        slope = values[last] - values[first]
        while last + 1 < len(values) and values[last + 1] - values[last] == slope:
            last += 1
        found.append(Stretch(first, last, values[first], slope))
        first = last + 1
    return found


def _line(stretch: Stretch, index: Linear) -> Linear:
    return total(
        [(stretch.slope, index), (1, constant(stretch.value - stretch.slope * stretch.first))]
    )
