"""Solving every scenario of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.models import Fault, Infeasible, InvalidProblem, Plan, Problem
from kvplan.models.units import LIMIT
from kvplan.solver.budget import merge_rows, rank_granule
from kvplan.solver.explore.blocks import blocks_of
from kvplan.solver.explore.figures import Figures, empty_figures, entries_of, put
from kvplan.solver.explore.grid import Grid
from kvplan.solver.explore.together import solve_block
from kvplan.solver.formulation import Formulation, formulate
from kvplan.solver.solve import solve_formulation

Progress = Callable[[int, int], None]
"""Called with the rows done and the rows in all."""


def solve_grid(grid: Grid, progress: Progress | None = None) -> Figures:
    """The figures of every row, each that of `plan` on its problem."""
    figures = empty_figures(grid.problem_at(0), len(grid))
    one_by_one, told = OneByOne(grid), Told(progress, len(grid))
    for block in blocks_of(grid):
        for written, left in solve_block(block, figures, told.beyond):
            told.add(written)
            for row in map(int, left):
                _put(figures, row, one_by_one.entries(row), grid)
                told.add(1)
    return figures


def _put(figures: Figures, row: int, entries: dict[str, Any], grid: Grid) -> None:
    """Write a row; what it lacks may leave 64 bits, which no column holds."""
    lacking = entries.get("shortfall", 0)
    if lacking >= LIMIT:
        fault = Fault("shortfall", "at most 2^63 - 1 bytes", str(lacking))
        raise grid.refused(fault, row)
    put(figures, row, entries)


class Told:
    """Rows that are done, told to a callback, never fewer than before."""

    def __init__(self, progress: Progress | None, rows: int) -> None:
        self._progress, self._rows = progress, rows
        self._done, self._last = 0, 0

    def add(self, rows: int) -> None:
        """Some more rows are done."""
        self._done += rows
        self.beyond(0)

    def beyond(self, rows: int) -> None:
        """So many more are nearly done."""
        if self._progress is not None and self._done + rows > self._last:
            self._last = self._done + rows
            self._progress(self._last, self._rows)


class OneByOne:
    """Rows by the scalar search; where only quotas vary, one formulation is given new rooms."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._base: Formulation | None = None

    def entries(self, row: int) -> dict[str, Any]:
        """A row's entries by column.

        Raises
        ------
        InvalidProblem : the row makes no sense; its values are named.
        """
        formulation = self._formulation(row)
        return entries_of(formulation.problem, _answer(formulation))

    def _formulation(self, row: int) -> Formulation:
        problem = self.grid.problem_at(row)
        base = self._base
        if base is None or not self.grid.varies_only_quotas or not _alike(base.problem, problem):
            try:
                base = self._base = formulate(problem)
            except InvalidProblem as error:
                raise self.grid.refused(error.faults[0], row) from None
        return requoted(base, problem)


def _answer(formulation: Formulation) -> Plan | Infeasible:
    try:
        return solve_formulation(formulation)
    except Infeasible as refusal:
        return refusal


def _alike(one: Problem, other: Problem) -> bool:
    """Whether the "auto" granule of every rank is the same."""
    pairs = zip(one.ranks, other.ranks, strict=True)
    return all(rank_granule(a, {}) == rank_granule(b, {}) for a, b in pairs)


def requoted(formulation: Formulation, problem: Problem) -> Formulation:
    """The formulation of a problem that differs in declared quotas alone, granules alike."""
    pairs = zip(problem.ranks, formulation.problem.ranks, strict=True)
    gained = [new.quota_bytes - old.quota_bytes for new, old in pairs]
    rows = tuple(
        row._replace(room=row.room + gained[row.rank], quota=row.quota + gained[row.rank])
        for row in formulation.terms.every_row
    )
    terms = formulation.terms._replace(rows=merge_rows(rows), every_row=rows)
    return formulation._replace(problem=problem, terms=terms)
