"""Whether a point that the search found may be taken for a solution of the program."""

from __future__ import annotations

from kvplan.kernels.bytes import least_kept
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point, constraint_value, holds
from kvplan.solver.answer.in_use import row_bytes


def obeys(instance: Instance, demand: Demand, point: Point) -> bool:
    """Whether a point breaks no rule of the instance; a plan of it is checked again elsewhere."""
    return (
        _in_range(instance, point)
        and _serves(instance, demand, point)
        and all(row_bytes(instance, b, point) <= b.limit_bytes for b in instance.budgets)
        and all(
            holds(row, constraint_value(instance, demand, point, row))
            for row in instance.constraints
        )
    )


def _in_range(instance: Instance, point: Point) -> bool:
    experts = instance.experts
    if experts is not None:
        most = point.experts if experts.most is None else experts.most
        if not experts.least <= point.experts <= most:
            return False
        if not least_kept(point.experts, experts) <= point.kept <= point.experts:
            return False
    for index, fitted in enumerate(instance.fitted):
        value = point.counts[index] if fitted.is_count else point.capacities[index]
        if value < fitted.least or (fitted.most is not None and value > fitted.most):
            return False
    return 0 <= point.chunk < len(instance.chunks)


def _serves(instance: Instance, demand: Demand, point: Point) -> bool:
    """usable >= ceil(raw / utilization) for every batch; least, most and multiple."""
    raws = [
        demand.raw(batch, point.chunk, point.capacities, point.counts)
        for batch in range(len(instance.batches))
    ]
    for index, (pool, usable) in enumerate(zip(instance.pools, point.usable, strict=True)):
        raw = max((by_pool[index] for by_pool in raws), default=0)
        if usable < pool.least or usable * pool.use_num < raw * pool.use_den:
            return False
        if usable % pool.multiple or (pool.most is not None and usable > pool.most):
            return False
    return True
