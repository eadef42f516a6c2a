"""What is left once every goal is settled: fill by shares, and expert slots kept in prefill."""

from __future__ import annotations

from kvplan.kernels.bytes import expert_bytes, least_kept, most_blocks, pool_bytes
from kvplan.kernels.capacity import bisect_largest
from kvplan.kernels.nested import Nested
from kvplan.kernels.terms import Row
from kvplan.kernels.worlds import Corner, World


def share_out(nested: Nested, world: World, corner: Corner) -> Corner:
    """Fill by shares: blocks within floor(share x (quota less all but the share pools)).

    A floor above its share stays, and then later pools take what is left.
    """
    terms = nested.terms
    if not terms.fill_shares:
        return corner
    rests = [_rest_of_shares(nested, world, corner, row) for row in terms.rows]
    for pool, share in terms.fill_shares:
        cap = nested.blocks_in_rest(world, corner, pool)
        for row, rest in zip(terms.rows, rests, strict=True):
            if row.pools and row.pools[pool]:
                budget = most_blocks(int(share * rest // 1), row.pools[pool])
                cap = min(cap, budget - terms.pools[pool].reserved)
        cap = cap // terms.pools[pool].multiple * terms.pools[pool].multiple
        usable = corner.usable
        usable = (*usable[:pool], max(usable[pool], cap), *usable[pool + 1 :])
        corner = corner._replace(usable=usable)
    return corner


def _rest_of_shares(nested: Nested, world: World, corner: Corner, row: Row) -> int:
    """Room of a row less everything but the pools that fill by shares."""
    pools = nested.terms.pools
    mine = sum(
        pool_bytes(corner.usable[pool] + pools[pool].reserved, row.pools[pool])
        for pool, _ in nested.terms.fill_shares
        if row.pools
    )
    return row.room - nested.used(row, world, corner) + mine


def most_kept(nested: Nested, world: World, corner: Corner) -> int:
    """Most expert slots that can stay during prefill beside everything else."""
    experts = nested.terms.experts
    if experts is None:
        return 0
    low = least_kept(corner.experts, experts)
    rooms = [
        (
            row.room - nested.used(row, world, corner) + expert_bytes(low, row.layers, experts),
            row.layers,
        )
        for row in nested.terms.rows
        if row.lent and row.layers
    ]
    return bisect_largest(
        lambda kept: all(expert_bytes(kept, layers, experts) <= room for room, layers in rooms),
        low,
        corner.experts,
    )
