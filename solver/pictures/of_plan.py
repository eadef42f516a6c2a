"""The budgets of a plan as bars: who takes what against each quota."""

from __future__ import annotations

from kvplan.models import Plan, Problem
from kvplan.models.plan import RankPlan
from kvplan.solver.explain.sensitivity.moved_quotas import alike
from kvplan.solver.pictures.chart import Bars, Part


def budget_bars(problem: Problem, plan: Plan) -> Bars:
    """One bar for each rank and phase; ranks with equal budgets share theirs."""
    ranks = {rank.name: rank for rank in plan.ranks}
    stacks: dict[str, dict[str, int]] = {}
    limits = []
    for members, name in alike(problem).items():
        rank = ranks[name]
        title = name if len(members) == 1 else f"{name} and {len(members) - 1} like it"
        for phase in rank.phases:
            stacks[f"{title}, {phase}"] = in_phase(rank, phase)
            limits.append(rank.quota)
    consumers = dict.fromkeys(name for stack in stacks.values() for name in stack)
    parts = tuple(
        Part(name, tuple(stack.get(name, 0) for stack in stacks.values())) for name in consumers
    )
    return Bars("Bytes of every phase against the quota", tuple(stacks), parts, tuple(limits))


def in_phase(rank: RankPlan, phase: str) -> dict[str, int]:
    """Bytes by consumer in one phase, as the ledger has them; terms of the quota stay out."""
    found: dict[str, int] = {}
    for line in rank.ledger:
        if phase in line.phases and line.bytes:
            found[line.consumer] = found.get(line.consumer, 0) + line.bytes
    return found
