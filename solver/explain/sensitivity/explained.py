"""The explanation of a problem that has a plan."""

from __future__ import annotations

from kvplan.models import Plan, Problem
from kvplan.solver.explain.sensitivity.break_points import (
    EVERY,
    Hints,
    break_points,
    targets_of,
    worths,
)
from kvplan.solver.explain.sensitivity.findings import Explained
from kvplan.solver.explain.sensitivity.moved_quotas import MovedQuotas, alike
from kvplan.solver.solve.plan import plan


def explain(problem: Problem) -> Explained:
    """Explain what limits a plan.

    Raises
    ------
    Infeasible : there is no plan; its conflict and remedies say why.
    InvalidProblem : the problem is invalid.
    SolverError : an answer at another quota could not be proven.
    """
    if problem.place is not None:
        from kvplan.solver.place.moved_placement import explain_placed

        return explain_placed(problem)
    answer = plan(problem)
    moved = MovedQuotas(problem)
    groups = alike(problem)
    targets = targets_of(problem, groups)
    return Explained(
        answer,
        tuple(break_points(moved, targets, _hints(answer, moved.floor_slack()))),
        tuple(worths(moved, targets)),
        {name: tuple(problem.ranks[i].name for i in members) for members, name in groups.items()},
    )


def _hints(answer: Plan, floor_slack: list[int]) -> dict[str, Hints]:
    """Guesses from what binds.

    The bytes that one step more lacks; the slack by phase, and with everything at its floor.
    """
    lacking: dict[str, dict[str, int]] = {}
    for entry in answer.binding:
        needs = lacking.setdefault(entry.rank, {})
        for variable, needed in entry.next.items():
            needs[variable] = max(needs.get(variable, 0), needed - entry.slack)
    hints = {
        rank.name: Hints(
            frozenset(lacking.get(rank.name, {}).values()),
            frozenset(rank.quota - used + 1 for used in rank.phases.values()) | {spare + 1},
        )
        for rank, spare in zip(answer.ranks, floor_slack, strict=True)
    }
    together: dict[str, int] = {}
    for needs in lacking.values():
        for variable, missing in needs.items():
            together[variable] = max(together.get(variable, 0), missing)
    fewer = frozenset().union(*(hint.fewer for hint in hints.values()))
    return {**hints, EVERY: Hints(frozenset(together.values()), fewer)}
