"""Bytes that a point takes of a budget."""

from __future__ import annotations

from kvplan.kernels.bytes import expert_bytes, pool_bytes
from kvplan.kernels.instance import Budget, Instance
from kvplan.kernels.values import Point


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
    for option, options in zip(point.options, budget.options, strict=True):
        total += options[option]
    return total
