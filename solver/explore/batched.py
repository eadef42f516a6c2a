"""A block of rows by the batched search, and its decisions as figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kvplan.kernels.arrays import Fits, RefusedError, Scenarios
from kvplan.kernels.arrays.batch import Batch
from kvplan.kernels.instance import Instance
from kvplan.solver.explore.budget_bytes import copies_held, first_rows, tightest
from kvplan.solver.explore.decided import Figures, Numbers, Words
from kvplan.solver.explore.grid import Grid
from kvplan.solver.explore.grid_blocks import Block, Rows, blocks_of
from kvplan.solver.explore.lacking import lacking
from kvplan.solver.formulate.formulation import Formulation, formulate
from kvplan.solver.sweep.by_name import groups_of
from kvplan.solver.sweep.named_scenarios import columns_of

During = Callable[[int], None]
TILE_ROWS = 1 << 16
"""Rows at a time: their columns are some ten MiB."""
OPTIMAL, _, INFEASIBLE = range(3)  # codes of `status`


def solves_together(grid: Grid) -> bool:
    """Whether the batched search takes a grid's rows; else they are solved one by one."""
    block = next(blocks_of(grid))
    if not block.moving:
        return False
    try:
        Batch(formulate(grid.problem_at(block.start)).instance)
    except RefusedError:
        return False
    return True


def solve_block(block: Block, figures: Figures, during: During) -> Iterator[tuple[int, Rows]]:
    """Write the rows of a block; after each tile how many are written, and which are left.

    Left is what the batched search refuses (weighted goals, linear constraints, figures beyond 64
    bits), and rows whose shortfall only the scalar search knows for certain.

    Parameters
    ----------
    during : called with the rows of a tile that are solved so far.
    """
    base = block.base() if block.moving else None
    for start in range(0, len(block), TILE_ROWS):
        indices = block.indices(start, min(start + TILE_ROWS, len(block)))
        rows = block.rows(indices) if block.moving else np.array([block.start])
        if base is None:
            yield 0, rows
            continue
        columns = columns_of(base, block.columns(indices))
        left, solved = [np.zeros(0, dtype=np.int64)], 0
        for group in groups_of(base, columns, len(rows)):
            formulation, instance, scenarios = group.scenarios(base, columns)
            members = rows[group.rows]
            tell = partial(_tell, during, solved, len(members))
            is_left = _solve(formulation, instance, scenarios, members, figures, tell)
            left.append(members[is_left])
            solved += len(members)
        remaining = np.sort(np.concatenate(left))
        yield len(rows) - len(remaining), remaining


def _tell(during: During, before: int, rows: int, done: int, number: int) -> None:
    """The batched search counts plans, of which rows may share one."""
    during(before + rows * done // number)


def _solve(
    formulation: Formulation,
    instance: Instance,
    scenarios: Scenarios,
    rows: Rows,
    figures: Figures,
    tell: Callable[[int, int], None],
) -> Any:
    """Write the rows of one group; True [row] where that is left to the scalar search."""
    try:
        batch = Batch(instance)
        fits = batch.fit(scenarios, tell)
    except RefusedError:
        return np.ones(len(rows), dtype=np.bool_)
    _write_plans(formulation, instance, scenarios, fits, rows, figures)
    is_left = np.zeros(len(rows), dtype=np.bool_)
    (without,) = np.nonzero(~fits.feasible)
    if len(without):
        is_sure = _write_refusals(batch, scenarios.picked(without), rows[without], figures)
        is_left[without[~is_sure]] = True
    return is_left


def _write_plans(
    formulation: Formulation,
    instance: Instance,
    scenarios: Scenarios,
    fits: Fits,
    rows: Rows,
    figures: Figures,
) -> None:
    """What is decided in every row that has a plan."""
    problem, planned = formulation.problem, fits.feasible
    _set(figures, "status", rows, np.where(planned, OPTIMAL, INFEASIBLE))
    chunks = np.asarray(instance.chunks, dtype=np.int64)
    columns: dict[str, Any] = {
        f"blocks:{pool.name}": fits.usable[:, index] + pool.reserved
        for index, pool in enumerate(instance.named_pools)
    }
    for index, fitted in enumerate(instance.fitted):
        kind, values = ("count", fits.counts) if fitted.is_count else ("capacity", fits.capacities)
        columns[f"{kind}:{fitted.name}"] = values[:, index]
    columns["prefill"] = chunks[fits.chunk]
    columns["experts"], columns["experts_in_prefill"] = fits.experts, fits.kept
    if instance.fill_batch is not None:
        name = problem.batches[instance.fill_batch].name
        columns[f"copies:{name}"] = copies_held(instance, scenarios, fits, instance.fill_batch)
    for index, choice in enumerate(problem.choices):
        columns[f"choice:{choice.name}"] = fits.options[:, index]
    quotas = [
        rank.quota_bytes if scenarios.quotas is None else scenarios.quotas[:, index]
        for index, rank in enumerate(problem.ranks)
    ]
    tight = tightest(instance, fits, quotas, problem.phases)
    columns["slack"], columns["tightest_rank"] = tight.slack, tight.rank
    columns["tightest_phase"] = tight.phase
    for name, values in columns.items():
        if name in figures:
            _set(figures, name, rows[planned], values[planned])


def _write_refusals(batch: Batch, scenarios: Scenarios, rows: Rows, figures: Figures) -> Any:
    """What rows without a plan lack; whether that is certain [row]."""
    instance = batch.instance
    if len(first_rows(instance)) < len(
        instance.every_budget
    ):  # a phase's shortfall is the larger of two
        return np.zeros(len(rows), dtype=np.bool_)
    found = lacking(batch, scenarios)
    is_short = found.is_sure & (found.row >= 0)
    at = found.row[is_short]
    phases = figures["tightest_phase"]
    assert isinstance(phases, Words)
    ranks = np.array([row.rank for row in instance.every_budget])
    codes = np.array([phases.names.index(row.phase) for row in instance.every_budget])
    _set(figures, "shortfall", rows[is_short], found.shortfall[is_short])
    _set(figures, "tightest_rank", rows[is_short], ranks[at])
    _set(figures, "tightest_phase", rows[is_short], codes[at])
    return found.is_sure


def _set(figures: Figures, name: str, rows: Rows, values: Any) -> None:
    """Numbers, or codes of words, of some rows."""
    column = figures[name]
    if isinstance(column, Numbers):
        column.values[rows] = values
        column.missing[rows] = False
    else:
        column.codes[rows] = values
