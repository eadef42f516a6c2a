"""What is left once every goal is settled: fill by shares, and expert slots kept in prefill."""

from __future__ import annotations

from kvplan.kernels.bytes import expert_bytes, least_kept, most_blocks, pool_bytes
from kvplan.kernels.capacity import bisect_largest
from kvplan.kernels.instance import Budget
from kvplan.kernels.nested import Search
from kvplan.kernels.worlds import Bounds, LeastDemand


def share_out(nested: Search, world: Bounds, corner: LeastDemand) -> LeastDemand:
    """Fill by shares: blocks within floor(share x (quota less all but the share pools)).

    A floor above its share stays, and then later pools take what is left.
    """
    instance = nested.instance
    if not instance.fill_shares:
        return corner
    rests = [_rest_of_shares(nested, world, corner, row) for row in instance.budgets]
    for pool, share in instance.fill_shares:
        cap = nested.blocks_in_rest(world, corner, pool)
        for row, rest in zip(instance.budgets, rests, strict=True):
            if row.pools and row.pools[pool]:
                budget = most_blocks(int(share * rest // 1), row.pools[pool])
                cap = min(cap, budget - instance.pools[pool].reserved)
        cap = cap // instance.pools[pool].multiple * instance.pools[pool].multiple
        usable = corner.usable
        usable = (*usable[:pool], max(usable[pool], cap), *usable[pool + 1 :])
        corner = corner._replace(usable=usable)
    return corner


def _rest_of_shares(nested: Search, world: Bounds, corner: LeastDemand, row: Budget) -> int:
    """Room of a row less everything but the pools that fill by shares."""
    pools = nested.instance.pools
    mine = sum(
        pool_bytes(corner.usable[pool] + pools[pool].reserved, row.pools[pool])
        for pool, _ in nested.instance.fill_shares
        if row.pools
    )
    return row.limit_bytes - nested.used(row, world, corner) + mine


def most_kept(nested: Search, world: Bounds, corner: LeastDemand) -> int:
    """Most expert slots that can stay during prefill beside everything else."""
    experts = nested.instance.experts
    if experts is None:
        return 0
    low = least_kept(corner.experts, experts)
    rooms = [
        (
            row.limit_bytes
            - nested.used(row, world, corner)
            + expert_bytes(low, row.layers, experts),
            row.layers,
        )
        for row in nested.instance.budgets
        if row.lent and row.layers
    ]
    return bisect_largest(
        lambda kept: all(expert_bytes(kept, layers, experts) <= room for room, layers in rooms),
        low,
        corner.experts,
    )
