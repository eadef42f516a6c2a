"""What a problem decides at many quotas, all ranks moved by as many bytes."""

from __future__ import annotations

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.explain.sensitivity.break_points import (
    EVERY,
    Change,
    Hints,
    Target,
    Walk,
    break_points_of,
)
from kvplan.solver.explain.sensitivity.moved_quotas import MovedQuotas
from kvplan.solver.explore.decided import empty_figures, entries_of, put
from kvplan.solver.explore.result_table import columns_of
from kvplan.solver.pictures.chart import Mark, Scale, Steps
from kvplan.solver.pictures.of_table import decisions_in, panel_of
from kvplan.solver.planner import Planner
from kvplan.solver.report.phrases import number

POINTS = 160


def quota_steps(problem: Problem, points: int = POINTS) -> Steps:
    """A staircase of every decision, from where nothing fits to half as much again.

    The marks are exact: the smallest quota with a plan, the quota now, and on either side of it the
    nearest break-point of every goal. With ranks of unlike quotas the axis counts what each of them
    has more than now.
    """
    import pandas as pd

    quotas = [rank.quota_bytes for rank in problem.ranks]
    walk = _walk(problem)
    least = _least(walk)
    breaks = {point.bytes: point.changes for point in break_points_of(walk) if point.changes}
    start, end = max(-min(quotas), least - max(1, -least // 8)), max(quotas) // 2
    moved = sorted(
        {start + (end - start) * i // points for i in range(points + 1)} | {least, 0, *breaks}
    )
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
        _marks(shared, {least: "fits from here", 0: "now"}, breaks, end - start),
    )


def _marks(
    shared: int, named: dict[int, str], breaks: dict[int, tuple[Change, ...]], span: int
) -> tuple[Mark, ...]:
    """All marks; one that stands too near to another has no words, so that all can be read."""
    for more in sorted(set(breaks) - set(named), key=abs):
        is_near = any(text and abs(more - at) < span // 8 for at, text in named.items())
        named[more] = "" if is_near else _text(breaks[more])
    return tuple(Mark(shared + more, text) for more, text in sorted(named.items()))


def _text(changes: tuple[Change, ...]) -> str:
    """The first goal that differs there."""
    first = changes[0]
    value = first.after
    return f"{first.goal} {number(int(value)) if value.denominator == 1 else value}"


def _answer(planner: Planner, problem: Problem, quotas: list[int], more: int) -> Plan | Infeasible:
    named = zip(problem.ranks, quotas, strict=True)
    try:
        return planner.plan(quota={rank.name: quota + more for rank, quota in named})
    except Infeasible as refusal:
        return refusal


def _walk(problem: Problem) -> Walk:
    """Looks along the quotas of all ranks together."""
    moved = MovedQuotas(problem)
    name = EVERY if len(problem.ranks) > 1 else problem.ranks[0].name
    everyone = Target(name, tuple(range(len(problem.ranks))))
    return Walk(moved, everyone, Hints(fewer=frozenset({min(moved.floor_slack()) + 1})))


def _least(walk: Walk) -> int:
    """How much less every rank may have, as a number of at most 0, before nothing fits."""
    quota = min(rank.quota_bytes for rank in walk.moved.problem.ranks)
    far = walk.next(-1, 0, quota)
    return -quota if far is None else 1 - far
