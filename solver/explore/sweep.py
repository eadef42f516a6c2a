"""Solving every scenario of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.models import Fault, Infeasible, InvalidProblem, Plan
from kvplan.models.units import LIMIT
from kvplan.solver.explore.batched import solve_block
from kvplan.solver.explore.decided import Figures, empty_figures, entries_of, put
from kvplan.solver.explore.grid import Grid
from kvplan.solver.explore.grid_blocks import blocks_of
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.place.placer import Placer
from kvplan.solver.solve.choose import solve_formulation

Progress = Callable[[int, int], None]
"""Called with the rows done and the total."""


def solve_grid(grid: Grid, progress: Progress | None = None) -> Figures:
    """The figures of every row, each that of `plan` on its problem."""
    figures = empty_figures(grid.problem_at(0), len(grid))
    told = Told(progress, len(grid))
    if grid.problem_at(0).place is not None:
        placer = Placer()
        for row in range(len(grid)):
            _put(figures, row, entries_at(grid, row, placer), grid)
            told.add(1)
        return figures
    for block in blocks_of(grid):
        for written, left in solve_block(block, figures, told.beyond):
            told.add(written)
            for row in map(int, left):
                _put(figures, row, entries_at(grid, row), grid)
                told.add(1)
    return figures


def _put(figures: Figures, row: int, entries: dict[str, Any], grid: Grid) -> None:
    """Write a row; a shortfall beyond 64 bits fits no column."""
    lacking = entries.get("shortfall", 0)
    if lacking >= LIMIT:
        fault = Fault("shortfall", "at most 2^63 - 1 bytes", str(lacking))
        raise grid.refused(fault, row)
    put(figures, row, entries)


class Told:
    """Reports the rows done to a callback, never fewer than before."""

    def __init__(self, progress: Progress | None, rows: int) -> None:
        self._progress, self._rows = progress, rows
        self._done, self._last = 0, 0

    def add(self, rows: int) -> None:
        """Count further rows as done."""
        self._done += rows
        self.beyond(0)

    def beyond(self, rows: int) -> None:
        """Report that so many further rows are nearly done."""
        if self._progress is not None and self._done + rows > self._last:
            self._last = self._done + rows
            self._progress(self._last, self._rows)


def entries_at(grid: Grid, row: int, placer: Placer | None = None) -> dict[str, Any]:
    """A row's entries by column, by the scalar search.

    Parameters
    ----------
    placer : what places layers and experts where the problem asks for it.

    Raises
    ------
    InvalidProblem : the row is invalid; its values are named.
    """
    problem = grid.problem_at(row)
    answer: Plan | Infeasible
    try:
        answer = placer.plan(problem) if placer else solve_formulation(formulate(problem))
    except InvalidProblem as error:
        raise grid.refused(error.faults[0], row) from None
    except Infeasible as refusal:
        answer = refusal
    return entries_of(problem, answer)
