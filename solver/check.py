"""Recompute every constraint of a point in Python integers before it becomes a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.kernels.bytes import expert_bytes, least_kept, pool_bytes
from kvplan.kernels.demand import Demand
from kvplan.kernels.need import ceil_div
from kvplan.kernels.terms import Row, Terms
from kvplan.kernels.values import Point, constraint_value, holds
from kvplan.models import CheckFailed
from kvplan.models.units import exact_bytes


def check_point(terms: Terms, demand: Demand, point: Point) -> None:
    """Raise CheckFailed with every rule that a point breaks."""
    broken = list(broken_rules(terms, demand, point))
    if broken:
        raise CheckFailed("the computed plan is wrong and was not returned: " + "; ".join(broken))


def broken_rules(terms: Terms, demand: Demand, point: Point) -> Iterator[str]:
    """Every rule that a point breaks, one line each."""
    yield from _ranges(terms, point)
    yield from _pools(terms, demand, point)
    yield from _rows(terms, point)
    yield from _constraints(terms, demand, point)


def row_bytes(terms: Terms, row: Row, point: Point) -> int:
    """Bytes in use of a row: pools, experts, staging and options, fixed consumers apart."""
    total = 0
    for index, buffers in enumerate(row.pools):
        total += pool_bytes(point.usable[index] + terms.pools[index].reserved, buffers)
    if row.layers and terms.experts is not None:
        slots = point.kept if row.lent else point.experts
        total += expert_bytes(slots, row.layers, terms.experts)
    if row.staging:
        total += row.staging[point.chunk]
    return total + sum(options[o] for o, options in zip(point.options, row.options, strict=True))


def _ranges(terms: Terms, point: Point) -> Iterator[str]:
    for index, fitted in enumerate(terms.fitted):
        value = point.counts[index] if fitted.is_count else point.capacities[index]
        if value < fitted.least or (fitted.most is not None and value > fitted.most):
            yield f"{fitted.name} = {value} is outside {fitted.least} to {fitted.most}"
    if not 0 <= point.chunk < len(terms.chunks):
        yield f"chunk {point.chunk} is none of {len(terms.chunks)}"
    experts = terms.experts
    if experts is not None:
        if point.experts < experts.least or (
            experts.most is not None and point.experts > experts.most
        ):
            yield f"{point.experts} expert slots are outside {experts.least} to {experts.most}"
        if not least_kept(point.experts, experts) <= point.kept <= point.experts:
            yield f"{point.kept} of {point.experts} expert slots stay during prefill"


def _pools(terms: Terms, demand: Demand, point: Point) -> Iterator[str]:
    """usable >= ceil(raw / utilization) for every batch; least, most and multiple."""
    needs = [pool.least for pool in terms.pools]
    for batch in range(len(terms.batches)):
        raws = demand.raw(batch, point.chunk, point.capacities, point.counts)
        for index, (raw, pool) in enumerate(zip(raws, terms.pools, strict=True)):
            needs[index] = max(needs[index], int(ceil_div(raw * pool.use_den, pool.use_num)))
    for usable, need, pool in zip(point.usable, needs, terms.pools, strict=True):
        if usable < need:
            yield f"pool {pool.name} has {usable} usable blocks, {need} are needed"
        if usable % pool.multiple or (pool.most is not None and usable > pool.most):
            yield f"pool {pool.name} has {usable} blocks: not a multiple, or above max_blocks"


def _rows(terms: Terms, point: Point) -> Iterator[str]:
    for row in terms.every_row:
        used = row_bytes(terms, row, point)
        if used > row.room:
            over = exact_bytes(used - row.room)
            yield f"rank {row.rank} exceeds its quota by {over} in {row.phase}"


def _constraints(terms: Terms, demand: Demand, point: Point) -> Iterator[str]:
    for index, constraint in enumerate(terms.constraints):
        value = constraint_value(terms, demand, point, constraint)
        if not holds(constraint, value):
            yield f"constraint {index} is {value}, outside {constraint.least} to {constraint.most}"
