"""What comes after the goals: shares of the rest, slots kept in prefill, and the fewest blocks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from kvplan.solver.oracle.byte_tables import Array
from kvplan.solver.oracle.enumeration.points import Mask, Points
from kvplan.solver.oracle.enumeration.space import Space
from kvplan.solver.oracle.needs import headroom, mix_needs, running_of_mix


def fill_shares(points: Points) -> list[tuple[str, Fraction]]:
    """Raise the pools of `fill: {shares}` in order, each within its share of what is left.

    What is left on a rank is the least, over its phases but load, of the limit less everything but
    the usable blocks of these pools, with unnamed pools and slots kept in prefill at their fewest.
    A pool whose fewest blocks take more than its share stays at those.
    """
    space, fill = points.space, points.space.problem.fill
    if fill is None or fill.shares is None:
        return []
    shares = {space.pool_index(name): share for name, share in fill.shares.items()}
    fewest = points.counts.min(axis=0)
    left = _left(points, set(shares), fewest)
    reached = []
    for pool, share in shares.items():
        within = np.flatnonzero(_fits(space, pool, share, left)).max(initial=-1)
        _raise_to(points, pool, max(int(within), int(fewest[pool])))
        name, usable = space.problem.pools[pool].name, space.pools[pool].usable
        reached.append((f"blocks:{name}", Fraction(int(usable[points.counts[0, pool]]))))
    return reached


def raise_scale(points: Points) -> Fraction:
    """Keep the points with most of the mix: every ratio at which some pool is used up is tried.

    The mix asks each pool for at least so many blocks, so the fewest stand for all again.
    """
    space = points.space
    (chunk,) = {int(place) for place in space.place_of("prefill")[points.speaker[points.of]]}
    held = mix_needs(space.problem, space.chunks[chunk])
    copy = [held[pool.name] / headroom(space.problem, pool) for pool in space.problem.pools]
    if space.problem.counts_running:
        copy.append(running_of_mix(space.problem))
    usable = [table.usable for table in space.pools]
    pairs = [(counts, mine) for counts, mine in zip(usable, copy, strict=True) if mine]
    ratios = {int(count) / mine for counts, mine in pairs for count in counts}
    for ratio in sorted(ratios | {Fraction(0)}, reverse=True):
        space.check_size(len(points))
        needed = np.array([math.ceil(ratio * mine) for mine in copy], np.int64)
        counts, used, fits = points.holding(np.tile(needed, (len(points), 1)), usable)
        if fits.any():
            points.counts, points.used = counts, used
            points.keep(fits)
            return ratio
    raise AssertionError("a feasible point holds none of a mix, not even nothing")


def _left(points: Points, sharing: set[int], fewest: Array) -> dict[str, int]:
    """Bytes on every rank that the sharing pools divide among them."""
    space = points.space
    others = points.used[0].copy()  # [budget]; all points differ in nothing but blocks by now
    for pool, table in enumerate(space.pools):
        others -= table.bytes[points.counts[0, pool]]
        others += table.reserved_bytes if pool in sharing else table.bytes[fewest[pool]]
    left: dict[str, int] = {}
    for budget, free in zip(space.budgets, space.limits - others, strict=True):
        if budget.phase != "load":
            left[budget.rank.name] = min(int(free), left.get(budget.rank.name, int(free)))
    return left


def _fits(space: Space, pool: int, share: Fraction, left: dict[str, int]) -> Mask:  # [count]
    """Counts of a pool whose usable blocks stay, on every rank, within its share."""
    table = space.pools[pool].bytes - space.pools[pool].reserved_bytes
    fits = np.ones(len(table), np.bool_)
    for index, budget in enumerate(space.budgets):
        if budget.phase != "load":
            fits &= table[:, index] <= math.floor(share * left[budget.rank.name])
    return fits


def _raise_to(points: Points, pool: int, most: int) -> None:
    """Keep the most blocks of a pool up to a count; the fewest where all points have more."""
    points.choose(pool)
    counts = points.counts[:, pool]
    top = int(counts[counts <= most].max(initial=-1))
    points.keep(counts == (top if top >= 0 else counts.min()))


def keep_slots(points: Points) -> int | None:
    """Keep as many slots in prefill as fit, all else but blocks decided."""
    space = points.space
    (setting,) = {int(index) for index in points.setting}
    kept, table = space.settings.kept(space.settings.all[setting])
    used = points.used[:, None, :] - table[0] + table  # [point, kept, budget]
    fits = np.all(used <= space.limits, axis=2)
    top = int(np.flatnonzero(fits.any(axis=0)).max())
    points.used = used[:, top]
    points.keep(fits[:, top])
    return kept[top]


def settle(points: Points) -> None:
    """Take the fewest blocks of every pool that nothing raised, in the order written."""
    for pool in range(len(points.space.pools)):
        points.keep(points.counts[:, pool] == points.counts[:, pool].min())
