"""Rows of a grid that differ only in fields that many scenarios may vary at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvplan.models import InvalidProblem, Problem
from kvplan.models.immutable.lazy import cached_property
from kvplan.models.problem import request_name
from kvplan.models.units import LIMIT
from kvplan.solver.explore.axes import Axis, Steps
from kvplan.solver.explore.grid import Grid
from kvplan.solver.explore.places import Place
from kvplan.solver.formulate.formulation import formulate

LEAST_ROWS = 16
"""With fewer rows, solving one by one is as fast."""
_MOST_AXES = 6
"""Besides quotas; their corners are tried, 2^6 at most."""
Rows = NDArray[np.int64]
Column = Any
"""Integers [value], or a list of fractions."""


@dataclass(frozen=True)
class Moving:
    """An axis whose values are columns of scenarios."""

    number: int  # among the grid's axes
    names: tuple[str, ...]  # of the columns, as `solver.sweep.by_name` has them
    values: Column

    @property
    def is_quota(self) -> bool:
        """Whether it varies quotas, which no rule of a problem looks at."""
        return self.names[0].startswith("quota:")

    def ends(self) -> tuple[int, ...]:
        """Where the least and the largest value stand."""
        if self.is_quota:
            return (0,)
        order = sorted((int(np.argmin(self.values)), int(np.argmax(self.values))))
        return tuple(dict.fromkeys(order))


@dataclass(frozen=True)
class Block:
    """The rows that share the values of all axes but some.

    Parameters
    ----------
    start : the first row.
    moving : the axes along which it lies; none: it is one row.
    """

    grid: Grid
    start: int
    moving: tuple[Moving, ...]

    def __len__(self) -> int:
        return prod(self._lengths)

    @cached_property
    def _lengths(self) -> list[int]:
        return [len(self.grid.axes[axis.number].figures) for axis in self.moving]

    @cached_property
    def _strides(self) -> list[int]:
        strides = strides_of(self.grid)
        return [strides[axis.number] for axis in self.moving]

    def indices(self, start: int, stop: int) -> list[Rows]:
        """Position along every axis of the block's rows start .. stop - 1."""
        found, left = [], np.arange(start, stop)
        for length in reversed(self._lengths):
            found.append(left % length)
            left = left // length
        return found[::-1]

    def rows(self, indices: list[Rows]) -> Rows:
        """Rows of the grid, from positions along the axes."""
        moved: Any = 0
        for index, stride in zip(indices, self._strides, strict=True):
            moved = moved + index * stride
        return np.asarray(self.start + moved, dtype=np.int64)

    def columns(self, indices: list[Rows]) -> dict[str, Column]:
        """What the rows vary, by name."""
        columns: dict[str, Column] = {}
        for axis, index in zip(self.moving, indices, strict=True):
            values = axis.values
            is_list = isinstance(values, list)
            column = [values[at] for at in index] if is_list else values[index]
            columns |= dict.fromkeys(axis.names, column)
        return columns

    def base(self) -> Problem | None:
        """The problem that scenarios change, with the largest chunk that any of them asks for.

        None where some corner is invalid: rows are then solved in order, to find the first fault. A
        problem bounds these fields from one side only, so valid corners mean valid rows between
        them.
        """
        chosen = [
            int(np.argmax(axis.values)) if axis.names == ("prefill",) else 0 for axis in self.moving
        ]
        ends = [
            tuple(dict.fromkeys((at, *axis.ends())))
            for at, axis in zip(chosen, self.moving, strict=True)
        ]
        base: Problem | None = None
        for corner in product(*ends):
            try:
                problem = self.grid.problem_at(self._row(corner))
                formulate(problem)
            except InvalidProblem:
                return None
            base = base or problem
        return base

    def _row(self, indices: tuple[int, ...]) -> int:
        steps = zip(indices, self._strides, strict=True)
        return self.start + sum(index * stride for index, stride in steps)


def blocks_of(grid: Grid) -> Iterator[Block]:
    """All rows of a grid, those together that can be solved together."""
    moving = _moving(grid)
    if not moving:
        yield from (Block(grid, row, ()) for row in range(len(grid)))
        return
    numbers = {axis.number for axis in moving}
    strides = strides_of(grid)
    starts = [
        [0] if number in numbers else [index * stride for index in range(len(axis.figures))]
        for number, (axis, stride) in enumerate(zip(grid.axes, strides, strict=True))
    ]
    for start in product(*starts):
        yield Block(grid, sum(start), moving)


def strides_of(grid: Grid) -> list[int]:
    """Rows from one value of an axis to the next."""
    strides, stride = [], 1
    for axis in reversed(grid.axes):
        strides.append(stride)
        stride *= len(axis.figures)
    return strides[::-1]


def _moving(grid: Grid) -> tuple[Moving, ...]:
    """The axes that scenarios may vary; none where that saves no time."""
    problem = grid.problem_at(0)
    found = []
    for number, (axis, places) in enumerate(zip(grid.axes, grid.places, strict=True)):
        names = tuple(_column_of(problem, place) for place in places)
        values = _values(axis, names)
        if values is not None:
            found.append(Moving(number, tuple(name for name in names if name), values))
    rows = prod(len(grid.axes[axis.number].figures) for axis in found)
    is_many = sum(not axis.is_quota for axis in found) > _MOST_AXES
    return () if rows < LEAST_ROWS or is_many else tuple(found)


def _column_of(problem: Problem, place: Place) -> str | None:
    """The column that a place stands for, by the names of `solver.sweep.by_name`."""
    match place.location:
        case ("ranks", int(rank), "quota"):
            return f"quota:{problem.ranks[rank].name}"
        case ("batches", int(b), "requests", int(r), ("capacity" | "count") as what):
            return _request_column(problem, b, r, what)
        case ("prefill", "requested"):
            return "prefill"
        case ("resume_utilization",):
            return "resume_utilization"
    return None


def _request_column(problem: Problem, b: int, r: int, what: str) -> str | None:
    """A given history does not move with the capacity, while scenarios keep the flight."""
    request = problem.batches[b].requests[r]
    if what == "capacity" and request.history is not None:
        return None
    names = [
        request_name(batch, i) for batch in problem.batches for i in range(len(batch.requests))
    ]
    name = request_name(problem.batches[b], r)
    return f"{what}:{name}" if names.count(name) == 1 else None


def _values(axis: Axis, names: tuple[str | None, ...]) -> Column | None:
    """The values of an axis as a column; None where scenarios cannot vary it."""
    kinds = {name and name.partition(":")[0] for name in names}
    if None in kinds or len(kinds) != 1:
        return None
    if kinds == {"resume_utilization"}:
        return [figure.exact for figure in axis.figures]
    is_quota = kinds == {"quota"}
    return _whole(axis, least=0 if is_quota else 1, is_bytes=is_quota)


def _whole(axis: Axis, *, least: int, is_bytes: bool) -> Column | None:
    """Whole numbers in 64 bits; of bytes with a unit what is left of a byte is a supply's loss."""
    figures = axis.figures
    if isinstance(figures, Steps) and figures.first.denominator == figures.step.denominator == 1:
        first, last = int(figures.first), int(figures[len(figures) - 1].exact)
        if not least <= first <= last < LIMIT or (figures.has_unit and not is_bytes):
            return None
        return first + int(figures.step) * np.arange(len(figures), dtype=np.int64)
    values = []
    for figure in figures:
        is_whole = figure.exact.denominator == 1 or (figure.has_unit and is_bytes)
        value = figure.exact.numerator // figure.exact.denominator
        if not is_whole or not least <= value < LIMIT or (figure.has_unit and not is_bytes):
            return None
        values.append(value)
    return np.array(values, dtype=np.int64)
