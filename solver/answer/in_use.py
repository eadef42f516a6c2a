"""Bytes that a point takes of a budget."""

from __future__ import annotations

from kvplan.kernels.bytes import expert_bytes, pool_bytes
from kvplan.kernels.instance import Budget, Instance
from kvplan.kernels.values import Point


def row_bytes(instance: Instance, row: Budget, point: Point) -> int:
    """Bytes in use of a budget: pools, experts, staging and options, fixed consumers apart."""
    total = 0
    for usable, pool, buffers in zip(point.usable, instance.pools, row.pools, strict=False):
        total += pool_bytes(usable + pool.reserved, buffers)
    if row.layers and instance.experts is not None:
        slots = point.kept if row.lent else point.experts
        total += expert_bytes(slots, row.layers, instance.experts)
    if row.staging:
        total += row.staging[point.chunk]
    for option, options in zip(point.options, row.options, strict=True):
        total += options[option]
    return total
