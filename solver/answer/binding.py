"""Which rank and phase stops each variable from growing."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.kernels.instance import Instance, Variable
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point
from kvplan.models.plan import Binding
from kvplan.solver.answer.in_use import budget_bytes
from kvplan.solver.answer.shortages import shortage_at
from kvplan.solver.formulate.formulation import Formulation


def bindings_of(formulation: Formulation, search: Search, point: Point) -> tuple[Binding, ...]:
    """Budgets that one step more of a variable would break, in the order of ranks and phases.

    `next` is slack plus what is missing: the bytes that the step would need there.
    """
    instance, problem = formulation.instance, formulation.problem
    needs: dict[tuple[int, str], dict[str, int]] = {}
    for name, variable, value in _steps(formulation, point):
        for budget, missing in shortage_at(search, point, variable, value).budgets:
            steps = needs.setdefault((budget.rank, budget.phase), {})
            steps[name] = max(steps.get(name, 0), missing)
    slack: dict[tuple[int, str], int] = {}
    for budget in instance.every_budget:
        key = (budget.rank, budget.phase)
        free = budget.limit_bytes - budget_bytes(instance, budget, point)
        slack[key] = min(slack.get(key, free), free)
    return tuple(
        Binding(
            rank=problem.ranks[rank].name,
            phase=phase,
            slack=slack[rank, phase],
            next={name: slack[rank, phase] + missing for name, missing in steps.items()},
        )
        for (rank, phase), steps in sorted(
            needs.items(), key=lambda item: (item[0][0], problem.phases.index(item[0][1]))
        )
    )


def _steps(formulation: Formulation, point: Point) -> Iterator[tuple[str, Variable, int]]:
    """One step more of every variable that wants to grow and may."""
    instance = formulation.instance
    for index, fitted in enumerate(instance.fitted):
        kind = "count" if fitted.is_count else "capacity"
        value = point.counts[index] if fitted.is_count else point.capacities[index]
        if fitted.most is None or value < fitted.most:
            yield f"{kind}:{fitted.name}", Variable(kind, index), value + 1
    if point.chunk + 1 < len(instance.chunks):
        yield "prefill", Variable("prefill"), instance.chunks[point.chunk + 1]
    experts = instance.experts
    if experts is not None and (experts.most is None or point.experts < experts.most):
        yield "experts", Variable("experts"), point.experts + 1
    for index in _growing_pools(instance):
        pool = instance.pools[index]
        value = point.usable[index] + pool.multiple
        if pool.most is None or value <= pool.most:
            yield f"blocks:{pool.name}", Variable("blocks", index), value


def _growing_pools(instance: Instance) -> list[int]:
    """Pools that fill raises, and those that a goal asks for."""
    wanted = [
        term.variable.position
        for goal in instance.objectives
        for term in goal.members
        if term.variable.kind == "blocks" and term.weight > 0
    ]
    return list(dict.fromkeys((*instance.fill_pools, *wanted)))
