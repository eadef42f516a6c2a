"""The largest value of a fitted capacity by ladders, one residue class after the other."""

from __future__ import annotations

from math import gcd, lcm
from typing import TYPE_CHECKING

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.demand import Demand
from kvplan.kernels.ladder import UNBOUNDED, Ladder, Rise, Step, rise_of
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
    sizes = block_sizes(terms)
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
    sizes = block_sizes(nested.terms)
    period = lcm(*sizes)
    best: int | None = None
    for residue in _residues(sizes):
        start = low if best is None else best + 1
        first = start + (residue - start) % period
        if first < high:
            corner = nested.corner(world, (*point[:index], first, *point[index + 1 :]))
            others = nested.demand.floors_without(
                nested.terms.fitted[index].batch, world.chunk, corner.capacities, corner.counts
            )
            least = [max(pair) for pair in zip(others, world.blocks, strict=True)]
            last = (high - 1 - first) // period
            ladder = ladder_of(nested.demand, index, world.chunk, corner[:2], least, period, last)
            rung = ladder.climb(_rooms(nested, world, corner, ladder))
            best = best if rung is None else first + rung * period
    return best


def block_sizes(terms: Terms) -> set[int]:
    return {rule.block_tokens for rule in terms.caches if rule.kind != STATE}


def _residues(sizes: set[int]) -> list[int]:
    """Residues of the capacities after which some need may rise: C = 0 mod a block size."""
    period = lcm(*sizes)
    if sum(period // size for size in sizes) > 2 * MOST_CLASSES:
        return [*range(2 * MOST_CLASSES)]  # too many; `is_ladder` says no
    return sorted({r for size in sizes for r in range(0, period, gcd(size, period))})


def ladder_of(
    demand: Demand,
    index: int,
    chunk: int,
    values: tuple[tuple[int, ...], tuple[int, ...]],
    least: list[int],
    period: int,
    last: int,
) -> Ladder:
    """The ladder of one fitted capacity.

    Parameters
    ----------
    values : capacities and counts by fitted request, this one's at rung 0.
    least : usable blocks by pool that everything else needs.
    """
    terms = demand.terms
    request = terms.fitted[index]
    first = values[0][index]
    raws = demand.raw(request.batch, chunk, *values)
    rises: dict[int, list[Rise]] = {}
    for rule in terms.caches:
        if rule.kind != STATE:
            flight = demand.flight(rule, chunk)
            rise = rise_of(rule, first, request.flight, flight, period, request.requests)
            rises.setdefault(rule.pool, []).append(rise)
            raws[rule.pool] -= rise.times * min(rise.start, rise.cap)
    steps = []
    for pool, found in rises.items():
        figures = terms.pools[pool]
        steps.append(
            Step(
                pool,
                raws[pool],
                tuple(found),
                least[pool],
                figures.use_num,
                figures.use_den,
                figures.multiple,
                UNBOUNDED if figures.most is None else figures.most,
                figures.reserved,
            )
        )
    rows = [tuple([row.pools[pool] if row.pools else () for pool in rises]) for row in terms.rows]
    return Ladder(tuple(steps), tuple(rows), last)


def _rooms(nested: Nested, world: World, corner: Corner, ladder: Ladder) -> list[int]:
    """For each row: the room less all that does not grow."""
    rooms = []
    for row, buffers in zip(nested.terms.rows, ladder.rows, strict=True):
        rest = row.room - nested.used(row, world, corner)
        for step, mine in zip(ladder.steps, buffers, strict=True):
            rest += pool_bytes(corner.usable[step.pool] + step.reserved, mine)
        rooms.append(rest)
    return rooms
