"""The grid of scenarios: every combination of the values of the varied fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from kvplan.models import Fault, InvalidProblem, Problem
from kvplan.models.messages import path_of
from kvplan.solver.explore.axes import MOST_ROWS, Axis, Figure, Values, parse_axis
from kvplan.solver.explore.places import Place, find_places
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.place.slot_program import without_placement


@dataclass(frozen=True, slots=True)
class Grid:
    """Scenarios in order, the last axis varying fastest; each writes its values into `data`."""

    data: dict[str, Any]
    axes: tuple[Axis, ...]
    places: tuple[tuple[Place, ...], ...]  # [axis][place]

    def __len__(self) -> int:
        return prod(len(axis.figures) for axis in self.axes)

    def figures_at(self, row: int) -> tuple[Figure, ...]:
        """The value of every axis in a row."""
        figures = []
        for axis in reversed(self.axes):
            row, index = divmod(row, len(axis.figures))
            figures.append(axis.figures[index])
        return tuple(reversed(figures))

    def problem_at(self, row: int) -> Problem:
        """The problem of a row.

        Raises
        ------
        InvalidProblem : its first fault, with the values of the row.
        """
        for figure, places in zip(self.figures_at(row), self.places, strict=True):
            for place in places:
                place.holder[place.key] = figure.as_written()
        try:
            return Problem.model_validate(self.data)
        except InvalidProblem as error:
            raise self.refused(error.faults[0], row) from None

    def refused(self, fault: Fault, row: int) -> InvalidProblem:
        """The fault of one row as the error of the whole grid, with the values of the row."""
        written = {path_of(place.location) for places in self.places for place in places}
        if fault.path in written:  # the fault shows the value itself
            return InvalidProblem([fault])
        pairs = zip(self.axes, self.figures_at(row), strict=True)
        values = ", ".join(f"{axis.path}={figure.as_written()}" for axis, figure in pairs)
        got = f"{fault.got} (with {values})" if fault.got else values
        return InvalidProblem([fault._replace(got=got)])


def build_grid(
    problem: Problem, vary: Mapping[str, Values], *, may_stand_still: bool = False
) -> Grid:
    """Read what varies, and validate the corners of the grid before solving.

    Parameters
    ----------
    may_stand_still : whether no field needs to vary; the grid has one row then.

    Raises
    ------
    InvalidProblem : see `explore`.
    """
    if not vary and not may_stand_still:
        raise InvalidProblem.at("--vary", "a field to vary, such as ranks.*.quota", "none")
    axes = tuple(parse_axis(path, values) for path, values in vary.items())
    data = problem.model_dump(mode="json", exclude_unset=True)
    grid = Grid(data, axes, find_places(data, axes))
    if len(grid) > MOST_ROWS:
        sizes = " x ".join(f"{len(axis.figures):_}" for axis in axes)
        raise InvalidProblem.at("--vary", f"at most {MOST_ROWS:_} rows", f"{sizes} = {len(grid):_}")
    for row in sorted(_corners(grid)):
        corner = grid.problem_at(row)
        try:
            formulate(corner if corner.place is None else without_placement(corner))
        except InvalidProblem as error:
            raise grid.refused(error.faults[0], row) from None
        _check_numeric(grid, corner)
    return grid


def _check_numeric(grid: Grid, corner: Problem) -> None:
    """Reject a field that read a figure as text: a name."""
    for places in grid.places:
        for place in places:
            if isinstance(_value_at(corner, place.location), str):
                raise InvalidProblem.at(path_of(place.location), "a numeric field", "a text")


def _value_at(value: Any, location: tuple[int | str, ...]) -> Any:
    """What a place of a problem's data was read as; fractions are text in its dump."""
    for key in location:
        if isinstance(value, Mapping):
            value = value[str(key)]
        else:
            value = value[key] if isinstance(key, int) else getattr(value, key)
    return value


def _corners(grid: Grid) -> set[int]:
    """The first and last row, and where one axis alone is at its other end."""
    last, stride = len(grid) - 1, 1
    rows = {0, last}
    for axis in reversed(grid.axes):
        reach = (len(axis.figures) - 1) * stride
        rows |= {reach, last - reach}
        stride *= len(axis.figures)
    return rows
