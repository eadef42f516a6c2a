"""What each variable of a weighted goal takes and is worth, as arrays over its candidates.

A candidate is a value after which some row's bytes rise: a smaller value that takes the same is
never better. Blocks, slots and a chunk take bytes of their own; a fitted capacity or count takes
those of all pools that it needs, and of a pool that is weighed itself it asks for blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvplan.kernels.demand import stepping_periods
from kvplan.kernels.need import request_blocks
from kvplan.kernels.nested import Nested
from kvplan.kernels.terms import Buffers, Curve, GoalTerm, Row
from kvplan.kernels.worlds import Corner, World

MOST_CANDIDATES = 1 << 17
MOST_ASKING = 1 << 14  # where a fitted variable asks for blocks that are weighed too
SAFE = 1 << 30  # tokens, counts and block sizes in tokens: no product of two leaves int64
SAFE_BYTES = 1 << 56
SAFE_WORTH = 1 << 50
FITTED = ("capacity", "count")
Integers = NDArray[np.int64]


class UnsuitedError(Exception):
    """A goal or its figures are not of the form that arrays take."""


class Mover(NamedTuple):
    """A variable of the goal."""

    term: GoalTerm
    values: Integers  # [candidate], rising
    costs: Integers  # [row, candidate] bytes
    worth: Integers  # [candidate], scaled
    needs: Mapping[int, Integers]  # by pool that moves too: [candidate] usable blocks it asks for
    rises: bool  # no candidate takes less than a smaller one


class Exchange(NamedTuple):
    """Movers against the room that everything else leaves."""

    movers: tuple[Mover, ...]
    room: Integers  # [row]


def scale_of(terms: Sequence[GoalTerm]) -> int:
    """What makes the worth of every integer value of every term an integer."""
    lines = [line for term in terms for line in _lines(term)]
    return lcm(*(part.denominator for line in lines for part in line[1:]))


def exchange(
    nested: Nested, world: World, point: tuple[int, ...], terms: Sequence[GoalTerm], scale: int
) -> Exchange | None:
    """The arrays of a goal in a world, fitted variables beside the goal at `point`; None: no room.

    Raises
    ------
    UnsuitedError : two fitted variables, copies, or a chunk that needs depend on are weighed.
    """
    _check(nested, world, terms)
    corner = nested.corner(world, point)
    weighed = {term.variable.position for term in terms if term.variable.kind == "blocks"}
    least = [*corner.usable]
    # A fitted variable first: what it asks for at the least bounds the pools from below.
    movers: list[Mover] = []
    for term in sorted(terms, key=lambda term: term.variable.kind not in FITTED):
        movers.append(_mover(nested, world, corner._replace(usable=tuple(least)), term, weighed, scale))
        for pool, blocks in movers[-1].needs.items():
            least[pool] = int(blocks.min(initial=least[pool]))
    if any(len(mover.values) == 0 for mover in movers):
        return None
    room = np.array(_rooms(nested, world, corner, movers), dtype=np.int64)
    asked = {pool for mover in movers for pool in mover.needs}
    if sum(len(mover.values) for mover in movers) > (MOST_ASKING if asked else MOST_CANDIDATES):
        raise UnsuitedError
    return Exchange(tuple(_up_to_best(mover, asked) for mover in movers), room)


def _up_to_best(mover: Mover, asked: set[int]) -> Mover:
    """Without candidates beyond the first of most worth, unless blocks are asked for."""
    kind, index = mover.term.variable
    last = int(mover.worth.argmax()) + 1
    if not mover.rises or last == len(mover.values) or (kind == "blocks" and index in asked):
        return mover
    return mover._replace(
        values=mover.values[:last], costs=mover.costs[:, :last], worth=mover.worth[:last]
    )


def _check(nested: Nested, world: World, terms: Sequence[GoalTerm]) -> None:
    kinds = [term.variable.kind for term in terms]
    fitted = sum(kind in FITTED for kind in kinds)
    chunked = "prefill" in kinds and nested.demand.uses_chunk
    if not nested.climbs or fitted > 1 or "copies" in kinds or chunked or any(world.copies):
        raise UnsuitedError
    if max((row.room for row in nested.terms.rows), default=0) >= SAFE_BYTES:
        raise UnsuitedError


def _mover(
    nested: Nested, world: World, corner: Corner, term: GoalTerm, weighed: set[int], scale: int
) -> Mover:
    top = nested.largest(world, term.variable)
    rows = nested.terms.rows
    needs: dict[int, Integers] = {}
    values = np.empty(0, dtype=np.int64)
    costs = np.zeros((len(rows), 0), dtype=np.int64)
    kind, index = term.variable
    if top is None:
        pass
    elif kind == "blocks":
        values = _block_counts(nested, index, corner.usable[index], top)
        reserved = nested.terms.pools[index].reserved
        costs = _stack([_paged(values + reserved, row.pools, index) for row in rows], values)
    elif kind == "experts":
        values = np.arange(corner.experts, _within(top, corner.experts) + 1, dtype=np.int64)
        costs = _stack([_slots(nested, row, values) for row in rows], values)
    elif kind == "prefill":
        chunks = nested.terms.chunks
        last = chunks.index(top)
        values = np.array(chunks[world.chunk : last + 1], dtype=np.int64)
        costs = _stack([row.staging[world.chunk : last + 1] or 0 for row in rows], values)
    else:
        values = _fitted_values(nested, world, term, top)
        usable = _floors(nested, world, corner, term, values)
        within = _allowed(nested, usable)
        values, usable = values[within], {p: blocks[within] for p, blocks in usable.items()}
        costs = _stack([_pools_bytes(nested, row, usable, weighed) for row in rows], values)
        needs = {pool: blocks for pool, blocks in usable.items() if pool in weighed}
        last = _last_of_equals([*costs, *needs.values()])
        values, costs = values[last], costs[:, last]
        needs = {pool: blocks[last] for pool, blocks in needs.items()}
    rises = not needs and bool((costs[:, 1:] >= costs[:, :-1]).all())
    return Mover(term, values, costs, _worth(term, values, scale), needs, rises)


def _within(top: int, low: int) -> int:
    if top - low >= MOST_CANDIDATES:
        raise UnsuitedError
    return top


def _stack(rows: list[Any], values: Integers) -> Integers:
    costs = np.zeros((len(rows), len(values)), dtype=np.int64)
    for index, row in enumerate(rows):
        costs[index] = row
    return costs


def _paged(allocated: Integers, pools: tuple[Buffers, ...], pool: int) -> Any:
    """Bytes of a pool in a row: sum over its buffers of ceil(n x bytes / granule) x granule."""
    buffers = pools[pool] if pools else ()
    return sum(-(-allocated * size // granule) * granule for size, granule in buffers)


def _block_counts(nested: Nested, pool: int, low: int, top: int) -> Integers:
    """Legal counts after which a page more is needed, and the largest."""
    terms = nested.terms.pools[pool]
    buffers = {each for row in nested.terms.rows if row.pools for each in row.pools[pool]}
    if all(granule > 2 * size * terms.multiple for size, granule in buffers):
        ends = [np.array([top], dtype=np.int64)]
        for size, granule in buffers:
            first = (low + terms.reserved) * size // granule
            last = (top + terms.reserved) * size // granule
            pages = np.arange(first, _within(last, first) + 1, dtype=np.int64)
            ends.append(pages * granule // size - terms.reserved)
        found = _distinct(np.concatenate(ends) // terms.multiple * terms.multiple)
        return found[(found >= low) & (found <= top)]
    steps = (top - low) // terms.multiple
    return low + terms.multiple * np.arange(_within(steps, 0) + 1, dtype=np.int64)


def _slots(nested: Nested, row: Row, slots: Integers) -> Any:
    """Bytes of expert slots in a row; in prefill of the least that stay."""
    experts = nested.terms.experts
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


# --- fitted variables ------------------------------------------------------------------------


def _fitted_values(nested: Nested, world: World, term: GoalTerm, top: int) -> Integers:
    """Capacities after which a need may rise, or every count; and the largest."""
    kind, index = term.variable
    low = world.low[index]
    fitted = nested.terms.fitted[index]
    if nested.demand.couplings[fitted.batch] or top >= SAFE:
        raise UnsuitedError
    if kind == "count":
        return np.arange(low, _within(top, low) + 1, dtype=np.int64)
    steps = stepping_periods(nested.terms, index)
    if sum((top - low) // t + 1 for t, _ in steps) > MOST_CANDIDATES:
        raise UnsuitedError
    points = [np.array([top], dtype=np.int64)]
    points += [
        np.arange(low + (offset - low) % t, top + 1, t, dtype=np.int64) for t, offset in steps
    ]
    return points[-1] if len(points) == 1 else _distinct(np.concatenate(points))


def _distinct(values: Integers) -> Integers:
    values = np.sort(values)
    return values[np.append(values[1:] > values[:-1], True)]


def _floors(
    nested: Nested, world: World, corner: Corner, term: GoalTerm, values: Integers
) -> dict[int, Integers]:
    """Usable blocks by pool that the fitted request asks for, beside all else that is decided."""
    demand, terms = nested.demand, nested.terms
    kind, index = term.variable
    fitted = terms.fitted[index]
    capacities, counts = corner.capacities, corner.counts
    raws = demand.raw(fitted.batch, world.chunk, capacities, counts)
    others = demand.floors_without(fitted.batch, world.chunk, capacities, counts)
    now = demand.own(index, capacities[index], world.chunk)
    if kind == "count":
        own: list[Any] = [blocks * values for blocks in now]
    else:
        own = _own_of_capacity(nested, world, index, values)
        own = [blocks * fitted.requests for blocks in own]
    usable = {}
    for pool, figures in enumerate(terms.pools):
        raw = raws[pool] - counts[index] * now[pool] + own[pool]
        if np.max(raw) * figures.use_den >= SAFE_BYTES:
            raise UnsuitedError
        need = -(-raw * figures.use_den // figures.use_num)
        need = np.maximum(need, max(others[pool], world.blocks[pool]))
        blocks = -(-need // figures.multiple) * figures.multiple
        size = max((s for row in terms.rows if row.pools for s, _ in row.pools[pool]), default=0)
        if (int(np.max(blocks)) + figures.reserved) * size >= 1 << 61:
            raise UnsuitedError
        usable[pool] = np.broadcast_to(blocks, values.shape)
    return usable


def _own_of_capacity(nested: Nested, world: World, index: int, capacities: Integers) -> list[Any]:
    demand, terms = nested.demand, nested.terms
    fitted = terms.fitted[index]
    prefix = terms.batches[fitted.batch].prefix_tokens
    own: list[Any] = [0] * len(terms.pools)
    for rule in terms.caches:
        flight = demand.flight(rule, world.chunk)
        figures = (rule.groups, rule.extra_blocks, rule.reach, rule.rewind, flight, prefix)
        if max(*figures, *(rule.scratch or ()), rule.state_blocks, fitted.requests) >= SAFE:
            raise UnsuitedError
        history = capacities - fitted.flight
        shared = prefix // rule.block_tokens
        own[rule.pool] += request_blocks(rule, capacities, history, flight, shared)
    if max(int(np.max(blocks)) for blocks in own) * max(1, fitted.requests) >= SAFE_BYTES:
        raise UnsuitedError
    return own


def _allowed(nested: Nested, usable: dict[int, Integers]) -> NDArray[np.bool_]:
    """Candidates within every pool's max_blocks and within what arrays can count."""
    within = np.ones(len(usable[0]) if usable else 0, dtype=bool)
    for pool, blocks in usable.items():
        most = nested.terms.pools[pool].most
        if most is not None:
            within &= blocks <= most
    return within


def _last_of_equals(figures: Sequence[Integers]) -> NDArray[np.bool_]:
    """Candidates whose bytes, and what they ask for, differ from the next one's."""
    last = np.ones(len(figures[0]), dtype=bool)
    if len(last):
        last[:-1] = False
        for figure in figures:
            last[:-1] |= figure[1:] != figure[:-1]
    return last


def _pools_bytes(nested: Nested, row: Row, usable: dict[int, Integers], weighed: set[int]) -> Any:
    total: Any = 0
    for pool, blocks in usable.items():
        if pool not in weighed:
            total = total + _paged(blocks + nested.terms.pools[pool].reserved, row.pools, pool)
    return total


# --- rooms and worth -------------------------------------------------------------------------


def _rooms(nested: Nested, world: World, corner: Corner, movers: Sequence[Mover]) -> list[int]:
    """Room of every row less all that no mover takes."""
    terms = nested.terms
    kinds = {mover.term.variable.kind for mover in movers}
    moved = {m.term.variable.position for m in movers if m.term.variable.kind == "blocks"}
    if kinds & {*FITTED}:
        moved = set(range(len(terms.pools)))
    rooms = []
    for row in terms.rows:
        used = sum(
            int(_paged(np.int64(corner.usable[p] + terms.pools[p].reserved), row.pools, p))
            for p in range(len(terms.pools))
            if p not in moved
        )
        if "experts" not in kinds and terms.experts is not None and row.layers:
            used += int(_slots(nested, row, np.array([corner.experts]))[0])
        if "prefill" not in kinds and row.staging:
            used += row.staging[world.chunk]
        used += sum(options[at] for at, options in zip(world.options, row.options, strict=True))
        rooms.append(row.room - used)
    return rooms


def _lines(term: GoalTerm) -> list[tuple[int | None, Fraction, Fraction]]:
    """(last value, slope, worth at 0) of every piece of weight x curve; the last is open."""
    if term.curve is None:
        return [(None, term.weight, Fraction(0))]
    curve: Curve = tuple((x, term.weight * y) for x, y in term.curve)
    lines: list[tuple[int | None, Fraction, Fraction]] = [
        (int(curve[0][0] // 1), Fraction(0), curve[0][1])
    ]
    for (x0, y0), (x1, y1) in pairwise(curve):
        slope = (y1 - y0) / (x1 - x0)
        lines.append((int(x1 // 1), slope, y0 - slope * x0))
    return [*lines, (None, Fraction(0), curve[-1][1])]


def _worth(term: GoalTerm, values: Integers, scale: int) -> Integers:
    """scale x weight x curve(value), exactly."""
    lines = _lines(term)
    slopes = [int(slope * scale) for _, slope, _ in lines]
    starts = [int(start * scale) for _, _, start in lines]
    top = int(values[-1]) if len(values) else 0
    if max(abs(s) * top + abs(b) for s, b in zip(slopes, starts, strict=True)) >= SAFE_WORTH:
        raise UnsuitedError
    ends = np.array([end for end, _, _ in lines if end is not None], dtype=np.int64)
    piece = np.searchsorted(ends, values, side="left")
    return np.array(slopes, dtype=np.int64)[piece] * values + np.array(starts)[piece]


