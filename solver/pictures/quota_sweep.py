"""What a problem decides at many quotas, all ranks moved by as many bytes."""

from __future__ import annotations

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.explain.sensitivity.break_points import EVERY, Hints, Target, Walk
from kvplan.solver.explain.sensitivity.moved_quotas import MovedQuotas
from kvplan.solver.explore.figures import empty_figures, entries_of, put
from kvplan.solver.explore.result_table import columns_of
from kvplan.solver.pictures.chart import Mark, Scale, Steps
from kvplan.solver.pictures.of_table import decisions_in, panel_of
from kvplan.solver.planner import Planner

POINTS = 160


def quota_steps(problem: Problem, points: int = POINTS) -> Steps:
    """A staircase of every decision, from where nothing fits to half as much again.

    The marks are exact: the smallest quota with a plan, and the quota now. With ranks of unlike
    quotas the axis counts what each of them has more than now.
    """
    import pandas as pd

    quotas = [rank.quota_bytes for rank in problem.ranks]
    least = _least(problem)
    start, end = max(-min(quotas), least - max(1, -least // 8)), max(quotas) // 2
    moved = sorted({start + (end - start) * i // points for i in range(points + 1)} | {least, 0})
    planner, figures = Planner(problem), empty_figures(problem, len(moved))
    for row, more in enumerate(moved):
        put(figures, row, entries_of(problem, _answer(planner, problem, quotas, more)))
    table = pd.DataFrame(columns_of(figures))
    shared = quotas[0] if len(set(quotas)) == 1 else 0
    scale = Scale("quota of every rank" if shared else "bytes more on every rank", "bytes")
    return Steps(
        f"Decisions by {scale.label}, at {len(moved)} quotas",
        scale,
        tuple(shared + more for more in moved),
        tuple(panel_of(table, name) for name in decisions_in(table)),
        (Mark(shared + least, "fits from here"), Mark(shared, "now")),
    )


def _answer(planner: Planner, problem: Problem, quotas: list[int], more: int) -> Plan | Infeasible:
    named = zip(problem.ranks, quotas, strict=True)
    try:
        return planner.plan(quota={rank.name: quota + more for rank, quota in named})
    except Infeasible as refusal:
        return refusal


def _least(problem: Problem) -> int:
    """How much less every rank may have, as a number below zero, before nothing fits."""
    moved = MovedQuotas(problem)
    everyone = Target(EVERY, tuple(range(len(problem.ranks))))
    hint = frozenset({min(moved.floor_slack()) + 1})
    quota = min(rank.quota_bytes for rank in problem.ranks)
    far = Walk(moved, everyone, Hints(fewer=hint)).next(-1, 0, quota)
    return -quota if far is None else 1 - far
