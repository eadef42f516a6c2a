"""Candidates of a fitted capacity or count, and the blocks that it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvplan.kernels.exchange.arrays import (
    MOST_CANDIDATES,
    SAFE,
    SAFE_BYTES,
    Flags,
    Integers,
    UnsuitedError,
    within,
)
from kvplan.kernels.exchange.costs import distinct
from kvplan.kernels.instance import ObjectiveTerm
from kvplan.kernels.need import request_blocks
from kvplan.kernels.nested import Search
from kvplan.kernels.periods import stepping_periods
from kvplan.kernels.worlds import Bounds, LeastDemand


def fitted_values(nested: Search, world: Bounds, term: ObjectiveTerm, top: int) -> Integers:
    """Capacities after which a need may rise, or every count; and the largest."""
    kind, index = term.variable
    low = world.low[index]
    fitted = nested.instance.fitted[index]
    if nested.demand.couplings[fitted.batch] or top >= SAFE:
        raise UnsuitedError
    if kind == "count":
        return np.arange(low, within(top, low) + 1, dtype=np.int64)
    steps = stepping_periods(nested.instance, index)
    if sum((top - low) // t + 1 for t, _ in steps) > MOST_CANDIDATES:
        raise UnsuitedError
    points = [np.arange(low + (o - low) % t, top, t, dtype=np.int64) for t, o in steps]
    ends = np.array([top], dtype=np.int64)
    if len(points) < 2:
        return np.concatenate([*points, ends])
    return distinct(np.concatenate([*points, ends]))


def floors(
    nested: Search, world: Bounds, corner: LeastDemand, term: ObjectiveTerm, values: Integers
) -> dict[int, Integers]:
    """Usable blocks by pool that the fitted request asks for, beside all else that is decided."""
    demand, instance = nested.demand, nested.instance
    kind, index = term.variable
    fitted = instance.fitted[index]
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
    for pool, figures in enumerate(instance.pools):
        raw = raws[pool] - counts[index] * now[pool] + own[pool]
        if int(np.max(raw)) * figures.use_den >= SAFE_BYTES:
            raise UnsuitedError
        need = -(-raw * figures.use_den // figures.use_num)
        need = np.maximum(need, max(others[pool], world.blocks[pool]))
        blocks = -(-need // figures.multiple) * figures.multiple
        size = max(
            (s for row in instance.budgets if row.pools for s, _ in row.pools[pool]), default=0
        )
        if (int(np.max(blocks)) + figures.reserved) * size >= 1 << 61:
            raise UnsuitedError
        usable[pool] = np.broadcast_to(blocks, values.shape)
    return usable


def _own_of_capacity(nested: Search, world: Bounds, index: int, capacities: Integers) -> list[Any]:
    demand, instance = nested.demand, nested.instance
    fitted = instance.fitted[index]
    prefix = instance.batches[fitted.batch].prefix_tokens
    own: list[Any] = [0] * len(instance.pools)
    for rule in instance.caches:
        flight = demand.flight(rule, world.chunk)
        figures = (rule.groups, rule.extra_blocks, rule.reach, rule.rewind, flight, prefix)
        if max(*figures, *(rule.scratch or ()), rule.state_blocks, fitted.requests) >= SAFE:
            raise UnsuitedError
        history = capacities - fitted.flight
        shared = prefix // rule.block_tokens
        own[rule.pool] += request_blocks(rule, capacities, history, flight, shared)
    most = max((int(np.max(blocks)) for blocks in own), default=0)
    if most * max(1, fitted.requests) >= SAFE_BYTES:
        raise UnsuitedError
    return own


def allowed(nested: Search, usable: dict[int, Integers], values: Integers) -> Flags:
    """Candidates within every pool's max_blocks."""
    within = np.ones(len(values), dtype=bool)
    for pool, blocks in usable.items():
        most = nested.instance.pools[pool].most
        if most is not None:
            within &= blocks <= most
    return within


def last_of_equals(figures: Sequence[Integers]) -> Flags:
    """Candidates whose bytes, and what they ask for, differ from the next one's."""
    last = np.ones(len(figures[0]), dtype=bool)
    if len(last):
        last[:-1] = False
        for figure in figures:
            last[:-1] |= figure[1:] != figure[:-1]
    return last
