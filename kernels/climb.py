"""The largest value of a fitted capacity by ladders, one residue class after the other."""

from __future__ import annotations

from math import gcd, lcm
from typing import TYPE_CHECKING

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.ladder import UNBOUNDED, Ladder, Rise, Room, Step, rise_of
from kvplan.kernels.terms import STATE, Terms

if TYPE_CHECKING:
    from kvplan.kernels.nested import Nested
    from kvplan.kernels.worlds import Corner, World

MOST_CLASSES = 64


def is_ladder(terms: Terms, fitted: int) -> bool:
    """Whether a fitted capacity's needs are all of the ladder's form, in few classes."""
    if terms.batches[terms.fitted[fitted].batch].prefix_tokens:
        return False
    if any(rule.scratch for rule in terms.caches):
        return False
    sizes = _block_sizes(terms)
    return bool(sizes) and len(_residues(sizes)) <= MOST_CLASSES


def climb(nested: Nested, world: World, index: int, point: tuple[int, ...]) -> int | None:
    """Largest capacity below the world's upper bound that fits; None if there is none.

    Parameters
    ----------
    index : of the fitted request.
    point : values of the other fitted variables.
    """
    low, high = world.low[index], world.high[index]
    assert high is not None
    sizes = _block_sizes(nested.terms)
    period = lcm(*sizes)
    best: int | None = None
    for residue in _residues(sizes):
        start = low if best is None else best + 1
        first = start + (residue - start) % period
        if first < high:
            at_first = (*point[:index], first, *point[index + 1 :])
            ladder = _ladder(nested, world, index, nested.corner(world, at_first), period)
            rung = ladder.climb((high - 1 - first) // period)
            best = best if rung is None else first + rung * period
    return best


def _block_sizes(terms: Terms) -> set[int]:
    return {rule.block_tokens for rule in terms.caches if rule.kind != STATE}


def _residues(sizes: set[int]) -> list[int]:
    """Residues of the capacities after which some need may rise: C = 0 mod a block size."""
    period = lcm(*sizes)
    if sum(period // size for size in sizes) > 2 * MOST_CLASSES:
        return [*range(2 * MOST_CLASSES)]  # too many; `is_ladder` says no
    return sorted({r for size in sizes for r in range(0, period, gcd(size, period))})


def _ladder(nested: Nested, world: World, index: int, corner: Corner, period: int) -> Ladder:
    """The ladder above a corner: pools that grow, rooms less everything else."""
    terms, demand = nested.terms, nested.demand
    request = terms.fitted[index]
    first = corner.capacities[index]
    rises: dict[int, list[Rise]] = {}
    for rule in terms.caches:
        if rule.kind != STATE:
            flight = demand.flight(rule, world.chunk)
            rise = rise_of(rule, first, request.flight, flight, period, request.requests)
            rises.setdefault(rule.pool, []).append(rise)
    raws = demand.raw(request.batch, world.chunk, corner.capacities, corner.counts)
    others = demand.floors_without(request.batch, world.chunk, corner.capacities, corner.counts)
    steps = []
    for pool, found in rises.items():
        grown = sum(rise.times * min(rise.start, rise.cap) for rise in found)
        figures = terms.pools[pool]
        steps.append(
            Step(
                pool=pool,
                raw=raws[pool] - grown,
                rises=tuple(found),
                least=max(others[pool], world.blocks[pool]),
                use_num=figures.use_num,
                use_den=figures.use_den,
                multiple=figures.multiple,
                most=UNBOUNDED if figures.most is None else figures.most,
            )
        )
    return Ladder(tuple(steps), _rooms(nested, world, corner, list(rises)))


def _rooms(nested: Nested, world: World, corner: Corner, growing: list[int]) -> tuple[Room, ...]:
    """For each row: the room less all that does not grow, and the growing pools' buffers."""
    pools = nested.terms.pools
    rooms = []
    for row in nested.terms.rows:
        rest = row.room - nested.used(row, world, corner)
        buffers: list[tuple[int, int, int, int]] = []
        for step, pool in enumerate(growing):
            if row.pools and row.pools[pool]:
                reserved = pools[pool].reserved
                rest += pool_bytes(corner.usable[pool] + reserved, row.pools[pool])
                buffers += [(step, reserved, size, granule) for size, granule in row.pools[pool]]
        rooms.append(Room(rest, tuple(buffers)))
    return tuple(rooms)
