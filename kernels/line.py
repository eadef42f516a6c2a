"""A fitted capacity once every window is full: one pool grows on, all else stands still.

Along a residue class C = first + k L the bytes are then others + pages(flat + k slope), so the
last rung that fits is a division. Before the windows are full they hold less: what the line says
fits, fits, and only where it ends below `full_from` may more fit than it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.kernels.bytes import most_blocks, pool_bytes
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import FULL, LIVE, PEAK, STATE, Buffers, CacheRule, PoolRule


class Residue(NamedTuple):
    """One residue class of a fitted capacity, all else decided."""

    fitted: int  # position of the request
    chunk: int  # index
    capacities: tuple[int, ...]  # by fitted request, this one's at rung 0
    counts: tuple[int, ...]  # by fitted request
    least: list[int]  # usable blocks by pool that everything else needs
    period: int  # tokens from rung to rung

    @property
    def first(self) -> int:
        """The capacity at rung 0."""
        return self.capacities[self.fitted]


class Line(NamedTuple):
    """The one pool that grows on, and the bytes of all others in each row."""

    place: int  # of the pool
    pool: PoolRule
    least: int  # usable blocks, from everything else
    flat: int  # raw blocks at rung 0, windows full
    sure: int  # the same without this request's windows
    slope: int  # raw blocks a rung
    usable: tuple[int, ...]  # blocks of the others, by pool
    rows: tuple[tuple[int, Buffers], ...]  # bytes of the others, its own buffers
    full_from: int  # rung

    def last(self, rooms: Sequence[int]) -> int:
        """The last rung that fits with all windows full; -1 for none.

        Parameters
        ----------
        rooms : bytes for the pools, by row.
        """
        _, reserved, _, held, multiple, num, den = self.pool
        for (others, buffers), room in zip(self.rows, rooms, strict=True):
            rest = room - others
            if rest < 0:
                return -1
            if buffers:
                most = most_blocks(rest, buffers) - reserved
                if held is None or most < held:
                    held = most
        if held is None:
            return -1
        held -= held % multiple
        if held < self.least:
            return -1
        rung = (held * num // den - self.flat) // self.slope
        return rung if rung > -1 else -1

    def blocks(self, rung: int) -> int:
        """Usable blocks of its pool at a rung from `full_from` on."""
        pool = self.pool
        need = -(-(self.flat + rung * self.slope) * pool.use_den // pool.use_num)
        return -(-max(need, self.least) // pool.multiple) * pool.multiple

    def least_bytes(self, rung: int) -> list[int]:
        """No more than its pool alone takes of each row from a rung on."""
        pool = self.pool
        blocks = -(-(self.sure + rung * self.slope) * pool.use_den // pool.use_num)
        return [pool_bytes(blocks + pool.reserved, mine) for _, mine in self.rows]

    def rests(self, blocks: int, rooms: Sequence[int]) -> list[int]:
        """What is left of every row with some usable blocks in its pool."""
        held = blocks + self.pool.reserved
        return [
            room - others - pool_bytes(held, buffers)
            for (others, buffers), room in zip(self.rows, rooms, strict=True)
        ]


def full_blocks(rule: CacheRule, first: int, flight_tokens: int, flight: int) -> int:
    """Blocks of one cache that is no `full` one, once it grows no more along a class.

    Parameters
    ----------
    first : a capacity of the class; its history is `first - flight_tokens`.
    flight : tokens in flight of the cache.
    """
    t = rule.block_tokens
    if rule.kind == LIVE:
        stale = (first - flight_tokens + 1 - rule.reach) // t
        return -(-first // t) - stale + rule.sink_blocks
    if rule.kind == PEAK:
        return rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1
    return -(-(rule.reach + (0 if rule.flight_per_batch else flight)) // t)


def line_of(demand: Demand, residue: Residue) -> Line | None:
    """The line of one fitted capacity's class; None unless just one pool grows on."""
    instance = demand.instance
    index, chunk, capacities, counts, least, period = residue
    request, first, times = instance.fitted[index], capacities[index], counts[index]
    others = (*counts[:index], 0, *counts[index + 1 :])
    raws = demand.raw(request.batch, chunk, capacities, others)
    mine, slope, full_from = -1, 0, 0
    windows = [0] * len(raws)
    for rule in instance.caches:
        pool, kind, t = rule.pool, rule.kind, rule.block_tokens
        each = times * rule.groups
        if kind == FULL:
            if not times:
                continue
            if mine not in (-1, pool):
                return None
            mine = pool
            slope += each * (period // t)
            blocks = -(-first // t)
        elif kind == STATE:
            blocks = rule.state_blocks
        else:
            blocks = full_blocks(rule, first, request.flight, demand.flight(rule, chunk))
            rungs = -((-(-first // t) - blocks) // (period // t))
            if rungs > full_from:
                full_from = rungs
            windows[pool] += each * blocks
        raws[pool] += each * (blocks + rule.extra_blocks)
    if mine < 0:
        return None
    usable = _usable(instance.pools, raws, least, mine)
    if usable is None:
        return None
    held = [blocks + pool.reserved for blocks, pool in zip(usable, instance.pools, strict=True)]
    held[mine] = 0
    rows = [
        (sum(map(pool_bytes, held, row.pools)), row.pools[mine]) if row.pools else (0, ())
        for row in instance.budgets
    ]
    return Line(
        place=mine,
        pool=instance.pools[mine],
        least=least[mine],
        flat=raws[mine],
        sure=raws[mine] - windows[mine],
        slope=slope,
        usable=tuple(usable),
        rows=tuple(rows),
        full_from=full_from,
    )


def _usable(
    pools: tuple[PoolRule, ...], raws: list[int], least: list[int], mine: int
) -> list[int] | None:
    """Usable blocks of the pools that stand still; None beyond a pool's max_blocks."""
    usable = []
    for index, (pool, raw, floor) in enumerate(zip(pools, raws, least, strict=True)):
        need = -(-raw * pool.use_den // pool.use_num)
        if need < floor:
            need = floor
        if pool.multiple > 1:
            need = -(-need // pool.multiple) * pool.multiple
        if pool.most is not None and need > pool.most and index != mine:
            return None
        usable.append(need)
    return usable
