"""What is left once every goal is settled: fill by shares, and expert slots kept in prefill."""

from __future__ import annotations

from kvplan.kernels.bytes import expert_bytes, least_kept, most_blocks, most_slots, pool_bytes
from kvplan.kernels.search.bounds import Bounds, LeastDemand
from kvplan.kernels.search.search import Search


def share_out(search: Search, bounds: Bounds, demand: LeastDemand) -> LeastDemand:
    """Fill by shares: usable blocks within floor(share x (quota less all but the share pools)).

    Reserved blocks stand outside: those of the share pools are among "all but". A floor above its
    share stays, and then later pools take what is left.
    """
    for pool, most in share_caps(search, bounds, demand):
        multiple = search.shape.pools[pool].multiple
        cap = min(most, search.blocks_beside(bounds, demand, pool)) // multiple * multiple
        usable = demand.usable
        usable = (*usable[:pool], max(usable[pool], cap), *usable[pool + 1 :])
        demand = demand._replace(usable=usable)
    return demand


def share_caps(search: Search, bounds: Bounds, demand: LeastDemand) -> list[tuple[int, int]]:
    """Every share pool with the most usable blocks within its share beside the other pools."""
    instance, caps = search.shape, []
    budgets = _shared_bytes(search, bounds, demand) if instance.fill_shares else []
    for pool, share in instance.fill_shares:
        _, reserved, _, top, multiple, _, _ = instance.pools[pool]
        tops = [
            most_blocks(int(share * rest // 1) + pool_bytes(reserved, buffers[pool]), buffers[pool])
            - reserved
            for rest, buffers in budgets
            if buffers and buffers[pool]
        ]
        most = min(tops, default=demand.usable[pool] if top is None else top)
        caps.append((pool, most // multiple * multiple))
    return caps


def _shared_bytes(
    search: Search, bounds: Bounds, demand: LeastDemand
) -> list[tuple[int, tuple[tuple[tuple[int, int], ...], ...]]]:
    """By layout: bytes of the tightest budget less all but what is shared, and its buffers."""
    evaluator = search.demand
    shared = {pool for pool, _ in search.shape.fill_shares}
    others = [0 if pool in shared else usable for pool, usable in enumerate(demand.usable)]
    taken = evaluator.pool_bytes(others, bounds.chunk)
    rests = zip(search.rests(bounds), taken, strict=True)
    return [
        (rest - other, buffers)
        for (rest, other), buffers in zip(rests, evaluator.buffers, strict=True)
    ]


def most_kept(search: Search, bounds: Bounds, demand: LeastDemand) -> int:
    """Most expert slots that can stay during prefill beside everything else."""
    experts = search.shape.experts
    if experts is None:
        return 0
    least = least_kept(bounds.experts, experts)
    kept = bounds.experts
    for budget, spare in search.spare(bounds, demand):
        if budget.lent and budget.layers:
            rest = spare + expert_bytes(least, budget.layers, experts)
            kept = min(kept, most_slots(rest, budget.layers, experts))
    return kept
