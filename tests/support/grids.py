"""Grids drawn over any problem, and their figures by one scalar search a row."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from kvplan.models import Problem
from kvplan.solver.explore.axes import Values
from kvplan.solver.explore.decided import Figures, Numbers, empty_figures, put
from kvplan.solver.explore.grid import Grid
from kvplan.solver.explore.sweep import entries_at


def one_by_one(grid: Grid) -> Figures:
    """What `solve_grid` must come to."""
    figures = empty_figures(grid.problem_at(0), len(grid))
    for row in range(len(grid)):
        put(figures, row, entries_at(grid, row))
    return figures


def assert_equal(found: Figures, expected: Figures) -> None:
    """Every column of every row, bit for bit."""
    assert list(found) == list(expected)
    for name, column in found.items():
        other = expected[name]
        if isinstance(column, Numbers):
            assert isinstance(other, Numbers)
            np.testing.assert_array_equal(column.missing, other.missing, name)
            there = ~column.missing
            np.testing.assert_array_equal(column.values[there], other.values[there], name)
        else:
            assert not isinstance(other, Numbers)
            assert column.names == other.names
            np.testing.assert_array_equal(column.codes, other.codes, name)


def drawn_grid(problem: Problem, seed: int, rows: int = 48) -> dict[str, Values]:
    """Up to three fields, some of them such as scenarios cannot vary."""
    random = Random(seed)
    vary: dict[str, Values] = {}
    axes = dict(_axes(problem, random))
    names = random.sample(sorted(axes), min(len(axes), random.randint(1, 3)))
    for name in names:
        count = max(2, round(rows ** (1 / len(names))))
        values = {axes[name]() for _ in range(count)}
        listed = sorted(values, key=str)
        random.shuffle(listed)
        vary[name] = listed
    return vary


def _axes(problem: Problem, random: Random) -> Any:
    """Draws of a value by path."""
    declared = [rank for rank in problem.ranks if rank.quota is not None]
    for rank in declared[:2]:
        most = rank.quota_bytes * 2 + 2
        yield f"ranks.{rank.name}.quota", lambda most=most: random.randint(0, most)
    for b, batch in enumerate(problem.batches):
        for r, request in enumerate(batch.requests):
            path = f"batches.{b}.requests.{r}"
            least = max(1, request.least_capacity + 1, request.history_tokens)
            most = least + request.capacity * 3 // 2
            draw = lambda least=least, most=most: random.randint(least, most)  # noqa: E731
            if request.capacity:
                yield f"{path}.capacity", draw
            fewest = request.min_count or 1
            yield f"{path}.count", lambda fewest=fewest: random.randint(fewest, fewest + 9)
    if problem.prefill is not None:
        least = max(problem.prefill.candidates[0], (problem.prefill.chunks or (1,))[-1])
        ends = [entry.table[-1][0] for entry in problem.prefill.staging if entry.table]
        most = min([problem.prefill.requested * 2, *ends])
        if most >= least:
            yield "prefill.requested", lambda: random.randint(least, most)
    yield "resume_utilization", lambda: f"{random.randint(20, 40)}/40"
    yield "tokens_per_block", lambda: random.randint(1, 3) * 4
