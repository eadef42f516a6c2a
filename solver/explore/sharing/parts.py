"""A large grid in parts: consecutive rows that are solved, kept and sent by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvplan.solver.explore.axes import Axis, Figure, Steps
from kvplan.solver.explore.batched import solves_together
from kvplan.solver.explore.decided import Figures, Numbers, Words
from kvplan.solver.explore.grid import Grid

BATCHED_ROWS, SINGLE_ROWS = 1 << 18, 128
"""Rows of a part where many are solved together, and where each is solved by itself: under a
second's work."""


@dataclass(frozen=True)
class PartOfGrid:
    """Rows start .. start + len(grid) - 1 of a grid, as a grid of their own."""

    start: int
    grid: Grid


def parts_of(grid: Grid, rows: int | None = None) -> tuple[PartOfGrid, ...]:
    """Cut a grid into parts of at most so many rows; None: by how its rows are solved."""
    if rows is None:
        rows = BATCHED_ROWS if solves_together(grid) else SINGLE_ROWS
    return tuple(_cut(grid, 0, 0, rows))


def _cut(grid: Grid, start: int, axis: int, rows: int) -> Iterator[PartOfGrid]:
    """Cut along the first axis that is long enough; the axes before it have one value each."""
    if len(grid) <= rows or axis == len(grid.axes):
        yield PartOfGrid(start, grid)
        return
    figures = grid.axes[axis].figures
    stride = len(grid) // len(figures)
    width = max(1, rows // stride)
    for first in range(0, len(figures), width):
        cut = _narrowed(grid, axis, first, min(first + width, len(figures)))
        yield from _cut(cut, start + first * stride, axis + 1, rows)


def _narrowed(grid: Grid, axis: int, first: int, stop: int) -> Grid:
    old = grid.axes[axis]
    new = Axis(old.path, _slice(old.figures, first, stop))
    return replace(grid, axes=(*grid.axes[:axis], new, *grid.axes[axis + 1 :]))


def _slice(figures: Sequence[Figure], first: int, stop: int) -> Sequence[Figure]:
    if isinstance(figures, Steps):
        return replace(figures, first=figures.first + first * figures.step, length=stop - first)
    return tuple(figures[index] for index in range(first, stop))


def joined(parts: Sequence[Figures]) -> Figures:
    """The figures of all parts below one another; each part has the same columns."""
    found: Figures = {}
    for name, first in parts[0].items():
        columns = [part[name] for part in parts]
        if isinstance(first, Words):
            codes = [column.codes for column in columns if isinstance(column, Words)]
            found[name] = Words(np.concatenate(codes), first.names)
        else:
            numbers = [column for column in columns if isinstance(column, Numbers)]
            found[name] = Numbers(
                np.concatenate([column.values for column in numbers]),
                np.concatenate([column.missing for column in numbers]),
            )
    return found
