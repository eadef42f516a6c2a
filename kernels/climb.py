"""The largest value of a fitted capacity by ladders, one residue class after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, lcm
from typing import TYPE_CHECKING

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import STATE, Instance
from kvplan.kernels.ladder import UNBOUNDED, Ladder, Rise, Step, rise_of
from kvplan.kernels.line import Line, Residue, line_of

if TYPE_CHECKING:
    from kvplan.kernels.nested import Search
    from kvplan.kernels.worlds import Bounds

MOST_CLASSES = 64


def is_ladder(instance: Instance, fitted: int) -> bool:
    """Whether a fitted capacity's needs are all of the ladder's form, in few classes."""
    if instance.batches[instance.fitted[fitted].batch].prefix_tokens:
        return False
    if any(rule.scratch for rule in instance.caches):
        return False
    sizes = block_sizes(instance)
    return bool(sizes) and len(_residues(sizes)) <= MOST_CLASSES


def climb(nested: Search, world: Bounds, index: int, point: tuple[int, ...]) -> int | None:
    """Largest capacity below the world's upper bound that fits; None if there is none.

    Parameters
    ----------
    index : of the fitted request.
    point : values of the other fitted variables.
    """
    low, high = world.low[index], world.high[index]
    assert high is not None
    sizes = block_sizes(nested.instance)
    period = lcm(*sizes)
    best: int | None = None
    for residue in _residues(sizes):
        start = low if best is None else best + 1
        first = start + (residue - start) % period
        if first < high:
            at_first = (*point[:index], first, *point[index + 1 :])
            rung = _last_rung(nested, world, index, at_first, period)
            best = best if rung is None else first + rung * period
    return best


def _last_rung(
    nested: Search, world: Bounds, index: int, point: tuple[int, ...], period: int
) -> int | None:
    """Last rung of the class that begins at a point and fits."""
    demand, instance = nested.demand, nested.instance
    high, values = world.high[index], nested.values_at(point)
    assert high is not None
    last = (high - 1 - point[index]) // period
    others = demand.floors_without(instance.fitted[index].batch, world.chunk, *values)
    least = [*map(max, others, world.blocks)]
    rooms = [
        row.limit_bytes - nested.other_bytes(row, world, world.experts) for row in instance.budgets
    ]
    residue = Residue(index, world.chunk, *values, least, period)

    def ladder(rooms: Sequence[int]) -> tuple[Ladder, list[int]]:
        built = ladder_of(demand, residue, last)
        return built, built.rooms(instance, nested.corner(world, point).usable, rooms)

    return rung_of(line_of(demand, residue), rooms, last, ladder)


def rung_of(
    line: Line | None,
    rooms: Sequence[int],
    last: int,
    ladder: Callable[[Sequence[int]], tuple[Ladder, list[int]]],
) -> int | None:
    """Last rung that fits, or None: by the line alone where it decides, else on the ladder."""
    low, high = 0, last
    if line is not None:
        rung = line.last(rooms)
        if rung >= last:
            return last
        if rung >= line.full_from:
            return rung
        # Before all windows are full more may fit than the line says, but not from there on.
        low, high = max(0, rung), min(last, line.full_from)
    built, left = ladder(rooms)
    return built.climb(left, low, high)


def block_sizes(instance: Instance) -> set[int]:
    return {rule.block_tokens for rule in instance.caches if rule.kind != STATE}


def _residues(sizes: set[int]) -> list[int]:
    """Residues of the capacities after which some need may rise: C = 0 mod a block size."""
    period = lcm(*sizes)
    if sum(period // size for size in sizes) > 2 * MOST_CLASSES:
        return [*range(2 * MOST_CLASSES)]  # too many; `is_ladder` says no
    return sorted({r for size in sizes for r in range(0, period, gcd(size, period))})


def ladder_of(demand: Demand, residue: Residue, last: int) -> Ladder:
    """The ladder of one fitted capacity's class, up to its last rung."""
    instance = demand.instance
    index, chunk, capacities, counts, least, period = residue
    request, first = instance.fitted[index], residue.first
    raws = demand.raw(request.batch, chunk, capacities, counts)
    rises: dict[int, list[Rise]] = {}
    for rule in instance.caches:
        if rule.kind != STATE:
            flight = demand.flight(rule, chunk)
            rise = rise_of(rule, first, request.flight, flight, period, request.requests)
            rises.setdefault(rule.pool, []).append(rise)
            raws[rule.pool] -= rise.times * min(rise.start, rise.cap)
    steps = []
    for pool, found in rises.items():
        figures = instance.pools[pool]
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
    rows = [
        tuple([row.pools[pool] if row.pools else () for pool in rises]) for row in instance.budgets
    ]
    return Ladder(tuple(steps), tuple(rows), last)
