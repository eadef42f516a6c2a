"""The largest shortfall of scenarios without a plan, and where it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kvplan.kernels.arrays import Scenarios
from kvplan.kernels.arrays.batch import HOST_ELEMENTS, Batch
from kvplan.kernels.arrays.columns import checked
from kvplan.kernels.arrays.search.search import Search
from kvplan.kernels.arrays.search.tile import Tile

Array = Any
_MOST = np.iinfo(np.int64).max


class Lacking(NamedTuple):
    """By scenario; nothing is lacking where `row` is -1 (a pool's max_blocks is too low)."""

    shortfall: Array  # bytes
    row: Array  # index into instance.every_budget
    is_sure: Array  # bool; False: least demands that lack the same lack it in several places


def lacking(batch: Batch, scenarios: Scenarios) -> Lacking:
    """What the least demand that comes nearest to fitting lacks, as `shortage_at_floors` does."""
    width = max(1, HOST_ELEMENTS // batch.points)
    starts = range(0, scenarios.number, width)
    parts = [
        _part(batch, scenarios.part(start, min(start + width, scenarios.number)))
        for start in starts
    ]
    return Lacking(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _part(batch: Batch, scenarios: Scenarios) -> Lacking:
    scenarios = checked(batch, scenarios)
    limits = batch.layout.limits(batch.arrays, scenarios.quotas)
    tile = Tile(batch.arrays, batch.layout, batch.demand, scenarios, limits)
    usable = Search(tile, batch.candidates).usable(tile.undecided)
    is_limited: Any = np.zeros(1, dtype=np.bool_)
    for pool, blocks in zip(batch.instance.pools, usable, strict=True):
        if pool.most is not None:
            is_limited = is_limited | (np.asarray(blocks) > pool.most)
    worst, where = _worst(batch, tile, usable, scenarios.quotas)
    shape = np.broadcast_shapes(
        is_limited.shape, worst.shape, (1,) * (worst.ndim - 1) + (scenarios.number,)
    )
    flat = (
        np.broadcast_to(each, shape).reshape(-1, scenarios.number)  # [least demand, scenario]
        for each in (is_limited, worst, where)
    )
    return _nearest(*flat)


def _worst(batch: Batch, tile: Tile, usable: list[Any], quotas: Any) -> tuple[Array, Array]:
    """Of every least demand the largest shortage, and the first row that has it."""
    start = tile.undecided
    taken = {
        id(member): options + tile.taken(row, usable, start.chunk, start.experts)
        for row, options in zip(batch.layout.budgets, tile.options, strict=True)
        for member in row.members
    }
    shape = (1,) * batch.layout.axes
    worst: Any = np.zeros(shape, dtype=np.int64)
    where: Any = np.full(shape, -1)
    for number, row in enumerate(batch.instance.every_budget):
        limit: Any = row.limit_bytes
        if quotas is not None:
            limit = tile.lift(
                quotas[:, row.rank] + (row.limit_bytes - batch.layout.quotas[row.rank])
            )
        missing = taken[id(row)] - limit
        is_more = missing > worst
        worst = np.where(is_more, missing, worst)
        where = np.where(is_more, number, where)
    return worst, where


def _nearest(is_limited: Array, worst: Array, where: Array) -> Lacking:
    """Pool limits first, then the least shortage; of equals only what they agree on is sure.

    The scalar search leaves out demands that others undercut, so the first of equals may be
    another there.
    """
    barred = is_limited & ~is_limited.all(axis=0)
    least = np.where(barred, _MOST, worst).min(axis=0)
    tied = ~barred & (worst == least)
    first = np.where(tied, where, _MOST).min(axis=0)
    last = np.where(tied, where, -1).max(axis=0)
    return Lacking(least, first, first == last)
