"""Recompute every constraint of a point in Python integers before it becomes a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from kvplan.kernels.bytes import expert_bytes, least_kept, pool_bytes
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Budget, Instance
from kvplan.kernels.values import Point, constraint_value, holds
from kvplan.models import CheckFailed
from kvplan.models.units import exact_bytes


def check_point(
    instance: Instance, demand: Demand, point: Point, rooms: Sequence[int] | None = None
) -> None:
    """Raise CheckFailed with every rule that a point breaks.

    Parameters
    ----------
    rooms : bytes of every row of `every_budget`, where they are not the rows' own.
    """
    broken = list(broken_rules(instance, demand, point, rooms))
    if broken:
        raise CheckFailed("the computed plan is wrong and was not returned: " + "; ".join(broken))


def broken_rules(
    instance: Instance, demand: Demand, point: Point, rooms: Sequence[int] | None = None
) -> Iterator[str]:
    """Every rule that a point breaks, one line each."""
    yield from _ranges(instance, point)
    yield from _pools(instance, demand, point)
    yield from _rows(instance, point, rooms)
    if instance.constraints:
        yield from _constraints(instance, demand, point)


def row_bytes(instance: Instance, row: Budget, point: Point) -> int:
    """Bytes in use of a row: pools, experts, staging and options, fixed consumers apart."""
    return _pool_bytes(instance, row, point) + _other_bytes(instance, row, point)


def _pool_bytes(instance: Instance, row: Budget, point: Point) -> int:
    total = 0
    for usable, pool, buffers in zip(point.usable, instance.pools, row.pools, strict=False):
        total += pool_bytes(usable + pool.reserved, buffers)
    return total


def _other_bytes(instance: Instance, row: Budget, point: Point) -> int:
    total = 0
    if row.layers and instance.experts is not None:
        slots = point.kept if row.lent else point.experts
        total += expert_bytes(slots, row.layers, instance.experts)
    if row.staging:
        total += row.staging[point.chunk]
    for option, options in zip(point.options, row.options, strict=True):
        total += options[option]
    return total


def _ranges(instance: Instance, point: Point) -> Iterator[str]:
    for index, fitted in enumerate(instance.fitted):
        value = point.counts[index] if fitted.is_count else point.capacities[index]
        if value < fitted.least or (fitted.most is not None and value > fitted.most):
            yield f"{fitted.name} = {value} is outside {fitted.least} to {fitted.most}"
    if not 0 <= point.chunk < len(instance.chunks):
        yield f"chunk {point.chunk} is none of {len(instance.chunks)}"
    experts = instance.experts
    if experts is not None:
        if point.experts < experts.least or (
            experts.most is not None and point.experts > experts.most
        ):
            yield f"{point.experts} expert slots are outside {experts.least} to {experts.most}"
        if not least_kept(point.experts, experts) <= point.kept <= point.experts:
            yield f"{point.kept} of {point.experts} expert slots stay during prefill"


def _pools(instance: Instance, demand: Demand, point: Point) -> Iterator[str]:
    """usable >= ceil(raw / utilization) for every batch; least, most and multiple."""
    raws = [
        demand.raw(batch, point.chunk, point.capacities, point.counts)
        if needed.fitted
        else demand.given(batch, point.chunk)
        for batch, needed in enumerate(instance.batches)
    ]
    largest: Iterable[int] = map(max, *raws) if len(raws) > 1 else raws[0] if raws else repeat(0)
    for pool, usable, raw in zip(instance.pools, point.usable, largest, strict=False):
        name, _, least, most, multiple, num, den = pool
        need = -(-raw * den // num)
        if usable < need or usable < least:
            yield f"pool {name} has {usable} usable blocks, {max(need, least)} are needed"
        if usable % multiple or (most is not None and usable > most):
            yield f"pool {name} has {usable} blocks: not a multiple, or above max_blocks"


def _rows(instance: Instance, point: Point, rooms: Sequence[int] | None) -> Iterator[str]:
    """Every rank, phase and bound; rows of one layout take the same bytes for their pools."""
    taken: dict[int, int] = {}
    for number, row in enumerate(instance.every_budget):
        used = taken.get(id(row.pools))
        if used is None:
            used = taken[id(row.pools)] = _pool_bytes(instance, row, point)
        if row.layers or row.staging or row.options:
            used += _other_bytes(instance, row, point)
        room = row.limit_bytes if rooms is None else rooms[number]
        if used > room:
            over = exact_bytes(used - room)
            yield f"rank {row.rank} exceeds its quota by {over} in {row.phase}"


def _constraints(instance: Instance, demand: Demand, point: Point) -> Iterator[str]:
    for index, constraint in enumerate(instance.constraints):
        value = constraint_value(instance, demand, point, constraint)
        if not holds(constraint, value):
            yield f"constraint {index} is {value}, outside {constraint.least} to {constraint.most}"
