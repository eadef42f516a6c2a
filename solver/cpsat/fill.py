"""What is left once every goal is settled, by arithmetic: all other decisions stay as they are.

It holds where no linear constraint and no weighted goal ties blocks to anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point
from kvplan.solver.cpsat.program.given_needs import mix_needs
from kvplan.solver.cpsat.program.goal_forms import variable_value
from kvplan.solver.cpsat.program.sizes import (
    blocks_within,
    budget_bytes,
    fewest_kept,
    pool_bytes,
    slots_bytes,
    slots_within,
)

Raws = Sequence[Sequence[int]]
"""Raw blocks by batch and pool."""


def filled(instance: Instance, point: Point, raws: Raws) -> Point:
    """The point with pools at their least, then raised by fill, then most slots kept in prefill."""
    usable = _least_blocks(instance, point, raws)
    point = point._replace(usable=usable, kept=fewest_kept(instance, point.experts))
    for goal in instance.objectives[instance.fill_from :]:
        assert goal.single is not None
        kind, index = goal.single
        if kind == "scale":
            point = _with_mix(instance, point)
        elif kind == "copies":
            point = _with_copies(instance, point, raws[index])
        else:
            point = _put(point, index, _most_blocks(instance, point, index))
    if instance.fill_shares:
        point = _shared_out(instance, point)
    return point._replace(kept=_most_kept(instance, point))


def share_caps(instance: Instance, point: Point) -> list[tuple[int, int]]:
    """The cap of every share pool: its share of what all else leaves, in each budget.

    Reserved blocks, its own too, are part of all else.
    """
    caps, shared = [], {pool for pool, _ in instance.fill_shares}
    emptied = [0 if pool in shared else usable for pool, usable in enumerate(point.usable)]
    bare = point._replace(usable=tuple(emptied))
    for index, share in instance.fill_shares:
        limits, pool = [], instance.pools[index]
        for budget in instance.budgets:
            if budget.pools and budget.pools[index]:
                rest = budget.limit_bytes - budget_bytes(instance, budget, bare)
                outside = pool_bytes(pool.reserved, budget.pools[index])
                limits.append(blocks_within(int(share * rest // 1) + outside, budget.pools[index]))
        caps.append((index, (min(limits) - pool.reserved) // pool.multiple * pool.multiple))
    return caps


def _shared_out(instance: Instance, point: Point) -> Point:
    """Every share pool up to its cap; a floor above it stays, and later pools get what is left."""
    for index, cap in share_caps(instance, point):
        most = min(cap, _most_blocks(instance, point, index))
        point = _put(point, index, max(point.usable[index], most))
    return point


def _least_blocks(instance: Instance, point: Point, raws: Raws) -> tuple[int, ...]:
    """Floors, raised to the blocks and copies that plain goals decided."""
    least = [pool.least for pool in instance.pools]
    held = [(1, raw) for raw in raws]
    for goal in instance.objectives[: instance.fill_from]:
        if goal.single is not None and goal.single.kind == "blocks":
            index = goal.single.position
            least[index] = max(least[index], point.usable[index])
        elif goal.single is not None and goal.single.kind == "copies":
            copies = variable_value(instance, point, raws, goal.single)
            held.append((copies, raws[goal.single.position]))
    for copies, raw in held:
        least = [max(a, b) for a, b in zip(least, _needed(instance, copies, raw), strict=True)]
    pairs = zip(least, instance.pools, strict=True)
    return tuple([-(-blocks // pool.multiple) * pool.multiple for blocks, pool in pairs])


def _needed(instance: Instance, copies: int, raw: Sequence[int]) -> list[int]:
    """Usable blocks by pool for some copies of a batch: one division and one ceil a pool."""
    pairs = zip(raw, instance.pools, strict=True)
    return [-(-copies * blocks * pool.use_den // pool.use_num) for blocks, pool in pairs]


def _with_copies(instance: Instance, point: Point, raw: Sequence[int]) -> Point:
    """Pools raised for the most whole copies of a batch; one copy fits already."""

    def holding(copies: int) -> Point:
        wanted = zip(point.usable, _needed(instance, copies, raw), instance.pools, strict=True)
        usable = [max(n, -(-blocks // p.multiple) * p.multiple) for n, blocks, p in wanted]
        return point._replace(usable=tuple(usable))

    alone = [_most_blocks(instance, point, index) for index in range(len(instance.pools))]
    tops = [
        blocks * pool.use_num // (need * pool.use_den)
        for blocks, need, pool in zip(alone, raw, instance.pools, strict=True)
        if need
    ]
    low, high = 0, min(tops)
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(instance, holding(middle)):
            low = middle
        else:
            high = middle - 1
    return holding(low)


def _with_mix(instance: Instance, point: Point) -> Point:
    """Pools raised for the largest multiple of the mix, a fraction of a common grid.

    At the largest one some pool is used up: s = blocks / (blocks a copy), so it lies on the grid of
    1 over what all numerators of these divide.
    """
    copy = mix_needs(instance, point.chunk)
    grid = lcm(*[each.numerator for each in copy if each])

    def holding(parts: int) -> Point:
        rows = zip(point.usable, copy, instance.pools, strict=True)
        usable = [
            max(
                n, -(-parts * each.numerator // (each.denominator * grid * p.multiple)) * p.multiple
            )
            for n, each, p in rows
        ]
        return point._replace(usable=tuple(usable))

    alone = [_most_blocks(instance, point, index) for index in range(len(instance.pools))]
    low = 0
    high = int(min([most / each * grid for most, each in zip(alone, copy, strict=True) if each]))
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(instance, holding(middle)):
            low = middle
        else:
            high = middle - 1
    return holding(low)


def _fits(instance: Instance, point: Point) -> bool:
    within = zip(point.usable, instance.pools, strict=True)
    return all(pool.most is None or blocks <= pool.most for blocks, pool in within) and all(
        budget_bytes(instance, budget, point) <= budget.limit_bytes for budget in instance.budgets
    )


def _most_blocks(instance: Instance, point: Point, index: int) -> int:
    """The most blocks of one pool beside everything else of a point."""
    pool = instance.pools[index]
    tops = [] if pool.most is None else [pool.most]
    for budget in instance.budgets:
        if budget.pools and budget.pools[index]:
            mine = pool_bytes(point.usable[index] + pool.reserved, budget.pools[index])
            limit = budget.limit_bytes - budget_bytes(instance, budget, point) + mine
            tops.append(blocks_within(limit, budget.pools[index]) - pool.reserved)
    return min(tops) // pool.multiple * pool.multiple


def _most_kept(instance: Instance, point: Point) -> int:
    """The most slots that stay during prefill beside everything else."""
    fewest = fewest_kept(instance, point.experts)
    kept = point.experts
    for budget in instance.budgets:
        if budget.lent and budget.layers:
            mine = slots_bytes(instance, fewest, budget.layers)
            taken = budget_bytes(instance, budget, point._replace(kept=fewest))
            limit = budget.limit_bytes - taken + mine
            kept = min(kept, slots_within(instance, limit, budget.layers, fewest))
    return kept


def _put(point: Point, index: int, blocks: int) -> Point:
    usable = point.usable
    return point._replace(usable=(*usable[:index], blocks, *usable[index + 1 :]))
