"""A weighted goal in a world as arrays.

Blocks, slots and a chunk take bytes of their own; a fitted capacity or count takes those of all
pools that it needs, and of a pool that is weighed itself it asks for blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvplan.kernels.exchange.arrays import (
    MOST_CANDIDATES,
    SAFE_BYTES,
    Exchange,
    Integers,
    Mover,
    TooManyError,
    UnsuitedError,
    exchange_between,
    within,
)
from kvplan.kernels.exchange.costs import (
    FITTED,
    block_counts,
    paged,
    pools_bytes,
    rooms,
    slots_bytes,
    stacked,
)
from kvplan.kernels.exchange.fitted import allowed, fitted_values, floors, last_of_equals
from kvplan.kernels.exchange.worth import worth_of
from kvplan.kernels.instance import ObjectiveTerm
from kvplan.kernels.nested import Search
from kvplan.kernels.worlds import Bounds, LeastDemand

MOST_ASKING = 1 << 15  # where a fitted variable asks for blocks that are weighed too


def exchange_of(
    nested: Search,
    world: Bounds,
    point: tuple[int, ...],
    reached: Sequence[tuple[ObjectiveTerm, int]],
    scale: int,
) -> Exchange | None:
    """The arrays of a goal in a world, fitted variables beside the goal at `point`; None: no room.

    Parameters
    ----------
    reached : every term of the goal, and the largest value that its variable can have.

    Raises
    ------
    UnsuitedError : two fitted variables, copies, or a chunk that needs depend on are weighed.
    TooManyError : there are too many candidates.
    """
    _check(nested, world, reached)
    corner = nested.corner(world, point)
    weighed = {term.variable.position for term, _ in reached if term.variable.kind == "blocks"}
    least = [*corner.usable]
    # A fitted variable first: what it asks for at the least bounds the pools from below.
    movers: list[Mover] = []
    for term, top in sorted(reached, key=lambda entry: entry[0].variable.kind not in FITTED):
        start = corner._replace(usable=tuple(least))
        values, costs, needs = _columns(nested, world, start, (term, top), weighed)
        movers.append(Mover(term, values, costs, worth_of(term, values, scale), needs))
        for pool, blocks in movers[-1].needs.items():
            least[pool] = int(blocks.min(initial=least[pool]))
    if any(len(mover.values) == 0 for mover in movers):
        return None
    room = np.array(rooms(nested, world, corner, movers), dtype=np.int64)
    asked = {pool for mover in movers for pool in mover.needs}
    if sum(len(mover.values) for mover in movers) > (MOST_ASKING if asked else MOST_CANDIDATES):
        raise TooManyError
    return exchange_between(tuple(_trimmed(mover, asked) for mover in movers), room)


def _trimmed(mover: Mover, asked: set[int]) -> Mover:
    """Without candidates beyond the first of most worth, where that takes least."""
    kind, index = mover.term.variable
    last = int(mover.worth.argmax()) + 1
    rises = not mover.needs and bool((mover.costs[:, 1:] >= mover.costs[:, :-1]).all())
    mover = mover._replace(rises=rises)
    if not rises or last == len(mover.values) or (kind == "blocks" and index in asked):
        return mover
    return mover._replace(
        values=mover.values[:last], costs=mover.costs[:, :last], worth=mover.worth[:last]
    )


def _check(nested: Search, world: Bounds, reached: Sequence[tuple[ObjectiveTerm, int]]) -> None:
    kinds = [term.variable.kind for term, _ in reached]
    fitted = sum(kind in FITTED for kind in kinds)
    chunked = "prefill" in kinds and nested.demand.uses_chunk
    if not nested.climbs or fitted > 1 or "copies" in kinds or chunked or any(world.copies):
        raise UnsuitedError
    experts = nested.instance.experts
    if max((row.limit_bytes for row in nested.instance.budgets), default=0) >= SAFE_BYTES:
        raise UnsuitedError
    tops = [world.experts, *(top for term, top in reached if term.variable.kind == "experts")]
    if experts is not None and experts.lend_num * max(tops) >= 1 << 62:
        raise UnsuitedError


def _columns(
    nested: Search,
    world: Bounds,
    corner: LeastDemand,
    reached: tuple[ObjectiveTerm, int],
    weighed: set[int],
) -> tuple[Integers, Integers, dict[int, Integers]]:
    """Candidates, bytes and needs of a mover."""
    term, top = reached
    kind, index = term.variable
    if kind in FITTED:
        return _fitted(nested, world, corner, term, top, weighed)
    if kind == "blocks":
        return *_blocks(nested, corner, index, top), {}
    if kind == "experts":
        return *_experts(nested, corner, top), {}
    return *_chunks(nested, world, top), {}


def _blocks(nested: Search, corner: LeastDemand, pool: int, top: int) -> tuple[Integers, Integers]:
    values = block_counts(nested, pool, corner.usable[pool], top)
    reserved = nested.instance.pools[pool].reserved
    rows = nested.instance.budgets
    return values, stacked([paged(values + reserved, row.pools, pool) for row in rows], values)


def _experts(nested: Search, corner: LeastDemand, top: int) -> tuple[Integers, Integers]:
    values = np.arange(corner.experts, within(top, corner.experts) + 1, dtype=np.int64)
    rows = nested.instance.budgets
    return values, stacked([slots_bytes(nested, row, values) for row in rows], values)


def _chunks(nested: Search, world: Bounds, top: int) -> tuple[Integers, Integers]:
    chunks = nested.instance.chunks
    end = chunks.index(top) + 1
    values = np.array(chunks[world.chunk : end], dtype=np.int64)
    staging = [row.staging[world.chunk : end] or 0 for row in nested.instance.budgets]
    return values, stacked(staging, values)


def _fitted(
    nested: Search,
    world: Bounds,
    corner: LeastDemand,
    term: ObjectiveTerm,
    top: int,
    weighed: set[int],
) -> tuple[Integers, Integers, dict[int, Integers]]:
    values = fitted_values(nested, world, term, top)
    usable = floors(nested, world, corner, term, values)
    legal = allowed(nested, usable, values)
    values, usable = values[legal], {pool: blocks[legal] for pool, blocks in usable.items()}
    costs = stacked(
        [pools_bytes(nested, row, usable, weighed) for row in nested.instance.budgets], values
    )
    needs = {pool: blocks for pool, blocks in usable.items() if pool in weighed}
    last = last_of_equals([*costs, *needs.values()])
    return values[last], costs[:, last], {pool: blocks[last] for pool, blocks in needs.items()}
