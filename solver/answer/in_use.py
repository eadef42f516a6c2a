"""Bytes that a point takes of a budget."""

from __future__ import annotations

from kvplan.kernels.bytes import expert_bytes, pool_bytes
from kvplan.kernels.instance import Budget, Instance
from kvplan.kernels.values import Point
from kvplan.kernels.workspace import workspaces_bytes
from kvplan.solver.formulate.formulation import Formulation


def bytes_by_phase(
    formulation: Formulation, point: Point
) -> tuple[list[dict[str, int]], list[int]]:
    """Bytes in use by rank and phase, fixed consumers included; and the headroom by rank in them.

    The headroom is what a staging that is charged in every phase takes of the quota.
    """
    instance, ranks = formulation.instance, formulation.problem.ranks
    phases: list[dict[str, int]] = [{} for _ in ranks]
    headroom = [0 for _ in ranks]
    for budget in instance.every_budget:
        quota = ranks[budget.rank].quota_bytes
        taken = budget_bytes(instance, budget, point) + quota - budget.limit_bytes
        plain = phases[budget.rank].get(budget.phase)
        if plain is None:
            phases[budget.rank][budget.phase] = taken
        elif taken > plain:  # with a headroom from the staging
            phases[budget.rank][budget.phase] = taken
            headroom[budget.rank] = taken - plain
    return phases, headroom


def budget_bytes(instance: Instance, budget: Budget, point: Point) -> int:
    """Bytes in use of a budget: pools, experts, staging and options, fixed consumers apart."""
    total = 0
    for usable, pool, buffers in zip(point.usable, instance.pools, budget.pools, strict=False):
        total += pool_bytes(usable + pool.reserved, buffers)
    if budget.layers and instance.experts is not None:
        slots = point.kept if budget.lent else point.experts
        total += expert_bytes(slots, budget.layers, instance.experts)
    if budget.staging:
        total += budget.staging[point.chunk]
    if budget.workspaces:
        total += workspaces_bytes(budget.workspaces, point.chunk, point.capacities)
    for option, options in zip(point.options, budget.options, strict=True):
        total += options[option]
    return total
