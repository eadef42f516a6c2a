"""Bytes of blocks and slots as arrays over candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.exchange.arrays import Integers, Mover, within
from kvplan.kernels.instance import Budget, Buffers
from kvplan.kernels.nested import Search
from kvplan.kernels.worlds import Bounds, LeastDemand

FITTED = ("capacity", "count")


def stacked(rows: list[Any], values: Integers) -> Integers:
    """One array [row, candidate]; a row may be one figure for all."""
    costs = np.zeros((len(rows), len(values)), dtype=np.int64)
    for index, row in enumerate(rows):
        costs[index] = row
    return costs


def paged(allocated: Integers, pools: tuple[Buffers, ...], pool: int) -> Any:
    """Bytes of a pool in a row: sum over its buffers of ceil(n x bytes / granule) x granule."""
    buffers = pools[pool] if pools else ()
    return sum(-(-allocated * size // granule) * granule for size, granule in buffers)


def block_counts(nested: Search, pool: int, low: int, top: int) -> Integers:
    """Legal counts after which a page more is needed, and the largest."""
    instance = nested.instance.pools[pool]
    buffers = {each for row in nested.instance.budgets if row.pools for each in row.pools[pool]}
    if all(granule > 2 * size * instance.multiple for size, granule in buffers):
        ends = [np.array([top], dtype=np.int64)]
        for size, granule in buffers:
            first = (low + instance.reserved) * size // granule
            last = (top + instance.reserved) * size // granule
            pages = np.arange(first, within(last, first) + 1, dtype=np.int64)
            ends.append(pages * granule // size - instance.reserved)
        found = distinct(np.concatenate(ends) // instance.multiple * instance.multiple)
        return found[(found >= low) & (found <= top)]
    steps = (top - low) // instance.multiple
    return low + instance.multiple * np.arange(within(steps, 0) + 1, dtype=np.int64)


def slots_bytes(nested: Search, row: Budget, slots: Integers) -> Any:
    """Bytes of expert slots in a row; in prefill of the least that stay."""
    experts = nested.instance.experts
    assert experts is not None
    if not row.layers:
        return 0
    if row.lent:
        lent = slots * experts.lend_num // experts.lend_den
        slots = np.maximum(np.minimum(slots, experts.keep), slots - lent)
    total, left = slots * 0, slots
    for count, size in experts.sizes[:-1]:
        taken = np.minimum(left, count)
        total, left = total + taken * size, left - taken
    total = row.layers * (total + left * experts.sizes[-1][1])
    return -(-total // experts.granule) * experts.granule


def distinct(values: Integers) -> Integers:
    """Sorted, each once."""
    ordered: Integers = np.sort(values)
    kept: Integers = ordered[np.append(ordered[1:] > ordered[:-1], True)]
    return kept


def pools_bytes(nested: Search, row: Budget, usable: dict[int, Integers], weighed: set[int]) -> Any:
    """Bytes in a row of the pools that are not weighed themselves."""
    total: Any = 0
    for pool, blocks in usable.items():
        if pool not in weighed:
            total = total + paged(blocks + nested.instance.pools[pool].reserved, row.pools, pool)
    return total


def rooms(nested: Search, world: Bounds, corner: LeastDemand, movers: Sequence[Mover]) -> list[int]:
    """Room of every row less all that no mover takes."""
    instance = nested.instance
    kinds = {mover.term.variable.kind for mover in movers}
    moved = {m.term.variable.position for m in movers if m.term.variable.kind == "blocks"}
    if kinds & {*FITTED}:
        moved = set(range(len(instance.pools)))
    rooms = []
    for row in instance.budgets:
        used = sum(
            pool_bytes(corner.usable[p] + instance.pools[p].reserved, row.pools[p])
            for p in range(len(instance.pools) if row.pools else 0)
            if p not in moved
        )
        if "experts" not in kinds and instance.experts is not None and row.layers:
            used += int(slots_bytes(nested, row, np.array([corner.experts]))[0])
        if "prefill" not in kinds and row.staging:
            used += row.staging[world.chunk]
        used += sum(options[at] for at, options in zip(world.options, row.options, strict=True))
        rooms.append(row.limit_bytes - used)
    return rooms
