"""Solving every scenario of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kvplan.models import Infeasible, InvalidProblem, Plan, Problem
from kvplan.solver.budget import merge_rows, rank_granule
from kvplan.solver.engine import solve_formulation
from kvplan.solver.explore.figures import Figures, empty_figures, entries_of, put
from kvplan.solver.explore.grid import Grid
from kvplan.solver.formulation import Formulation, formulate

Progress = Callable[[int, int], None]
"""Called with the rows done and the rows in all."""


def solve_grid(grid: Grid, progress: Progress | None = None) -> Figures:
    """The figures of every row, each that of `plan` on its problem."""
    figures = empty_figures(grid.problem_at(0), len(grid))
    for row, formulation in enumerate(_formulations(grid)):
        put(figures, row, entries_of(formulation.problem, _answer(formulation)))
        if progress is not None:
            progress(row + 1, len(grid))
    return figures


def _answer(formulation: Formulation) -> Plan | Infeasible:
    try:
        return solve_formulation(formulation)
    except Infeasible as refusal:
        return refusal


def _formulations(grid: Grid) -> Iterator[Formulation]:
    """The formulation of each row; where only quotas vary, one is built and given new rooms."""
    base: Formulation | None = None
    for row in range(len(grid)):
        problem = grid.problem_at(row)
        if base is None or not grid.varies_only_quotas or not _same_granules(base.problem, problem):
            try:
                base = formulate(problem)
            except InvalidProblem as error:
                raise grid.refused(error.faults[0], row) from None
        yield requoted(base, problem)


def _same_granules(one: Problem, other: Problem) -> bool:
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
    return replace(formulation, problem=problem, terms=terms)
