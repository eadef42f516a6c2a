"""Trade-offs as a pandas table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kvplan.models import Problem
from kvplan.solver.explain.sensitivity.break_points import Hints, Target, Walk
from kvplan.solver.explain.sensitivity.moved_quotas import MovedQuotas, alike
from kvplan.solver.explore.decided import empty_figures, entries_of, put
from kvplan.solver.explore.result_table import columns_of
from kvplan.solver.frontier.goal_axes import Axis, reaching_all
from kvplan.solver.frontier.trade_offs import TradeOff


def table_of(problem: Problem, axes: tuple[Axis, ...], points: list[TradeOff]) -> pd.DataFrame:
    """One row for each trade-off: the goals first, what else is decided, the least quotas."""
    figures = empty_figures(problem, len(points))
    for row, point in enumerate(points):
        put(figures, row, entries_of(problem, point.plan))
    goals = [axis.variable for axis in axes if axis.variable in figures]
    others = [name for name in figures if name not in (*goals, "shortfall")]
    columns: dict[str, Any] = columns_of({name: figures[name] for name in (*goals, *others)})
    quotas = [
        least_quotas(floored)
        for point in points
        if (floored := reaching_all(problem, zip(axes, point.values, strict=True)))
    ]
    for index, rank in enumerate(problem.ranks):
        columns[f"least_quota:{rank.name}"] = pd.array(
            [by_rank[index] for by_rank in quotas], dtype="Int64"
        )
    return pd.DataFrame(columns)


def least_quotas(problem: Problem) -> list[int]:
    """For each rank, the smallest quota at which the problem still fits.

    The other quotas stay as they are. On both sides of each step of an "auto" granule.
    """
    moved = MovedQuotas(problem)
    spare, least = moved.floor_slack(), [0] * len(problem.ranks)
    for members, name in alike(problem).items():
        first = members[0]
        quota = problem.ranks[first].quota_bytes
        walk = Walk(moved, Target(name, (first,)), Hints(fewer=frozenset({spare[first] + 1})))
        far = walk.next(-1, 0, quota)
        for index in members:
            least[index] = 0 if far is None else quota - far + 1
    return least
