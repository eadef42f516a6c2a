"""Raw needs of every batch for every value of every fitted request and every chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kvplan.models.demands import Batch, Request
from kvplan.models.pools import Cache
from kvplan.models.problem import Problem, request_name
from kvplan.solver.oracle.blocks import Footprint, completed, flight_blocks, footprint
from kvplan.solver.oracle.byte_tables import Array
from kvplan.solver.oracle.needs import Load, asked, flight_tokens


class Axis(NamedTuple):
    """Every value that one variable may take."""

    variable: str
    """capacity:<request>, count:<request> or prefill."""
    values: Sequence[int]


def capacity_axis(batch: Batch, name: str, request: Request) -> Axis:
    """Every capacity from the lower bound up; in a batch with a prefix the history covers it."""
    least = request.least_capacity
    if batch.shared_prefix:
        least = max(least, batch.shared_prefix + request.flight_tokens)
    return Axis(f"capacity:{name}", range(least, request.capacity + 1))


class Demand:
    """Needs by simulation, once for every value, summed over a grid of all values.

    Attributes
    ----------
    shape : length of every axis; the last axis is the chunk, of length 1 where there is none.
    """

    def __init__(
        self, problem: Problem, axes: Sequence[Axis], chunks: Sequence[int | None]
    ) -> None:
        self.problem = problem
        self.axes = {axis.variable: index for index, axis in enumerate(axes)}
        self.values = [axis.values for axis in axes]
        self.chunks = chunks
        self.shape = (*map(len, self.values), len(chunks))

    def raw(self, batch: Batch, pool: str) -> Array:
        """Raw need of a batch in a pool, broadcastable to `shape`."""
        total = np.zeros((1,) * len(self.shape), np.int64)
        for cache in self.problem.caches:
            if self.problem.pool_of(cache) == pool:
                total = total + cache.groups * self._cache(batch, cache)
        return total

    def running(self, batch: Batch) -> Array:
        """Requests of a batch, those without tokens too, broadcastable to `shape`."""
        total = np.zeros((1,) * len(self.shape), np.int64)
        for name, request in named(batch):
            loads, axis = self._loads(name, request)
            counts = np.array([[load.count] for load in loads], np.int64)
            total = total + self._place(counts, axis)
        return total

    def _cache(self, batch: Batch, cache: Cache) -> Array:
        block_tokens = self.problem.block_tokens(cache)
        own = np.zeros((1,) * len(self.shape), np.int64)
        first: list[Array] = []  # of the dead blocks
        last: list[Array] = []
        for name, request in named(batch):
            loads, axis = self._loads(name, request)
            if not loads[0].uses(cache):
                continue
            if loads[0].count == 0 or (loads[0].capacity == 0 and cache.kind != "state"):
                continue
            held = [
                [self._held(batch, cache, load, f) for f in self._flights(cache)] for load in loads
            ]
            counts = np.array([load.count for load in loads], np.int64)
            grid = np.array([[each.own for each in line] for line in held], np.int64)
            own = own + self._place(grid * counts[:, None], axis)
            dead = [[(each.dead.start, each.dead.stop) for each in line] for line in held]
            ends = np.array(dead, np.int64)  # [value, flight, start or stop]
            first.append(self._place(ends[..., 0], axis))
            last.append(self._place(ends[..., 1], axis))
        if cache.kind == "state" or not first:
            return own
        shared = completed(batch.shared_prefix, block_tokens)
        dead_for_all = np.minimum(_least(last), shared) + _least([-start for start in first])
        flights = [flight_blocks(cache, block_tokens, f) for f in self._flights(cache)]
        flight = self._place(np.array([flights], np.int64), None)
        return own + flight + shared - np.maximum(dead_for_all, 0)

    def _loads(self, name: str, request: Request) -> tuple[list[Load], int | None]:
        """Every size that a request may take, and the axis along which it does."""
        load = asked(request)
        if request.fit == "capacity":
            axis = self.axes[f"capacity:{name}"]
            flight = request.flight_tokens
            return [replace(load, capacity=c, history=c - flight) for c in self.values[axis]], axis
        if request.fit == "count":
            axis = self.axes[f"count:{name}"]
            return [replace(load, count=count) for count in self.values[axis]], axis
        return [load], None

    def _flights(self, cache: Cache) -> list[int]:
        """Tokens in flight by chunk, or one figure for all."""
        chunks = self.chunks if cache.in_flight == "prefill" else self.chunks[:1]
        return [flight_tokens(self.problem, cache, chunk) for chunk in chunks]

    def _held(self, batch: Batch, cache: Cache, load: Load, flight: int) -> Footprint:
        block_tokens = self.problem.block_tokens(cache)
        return footprint(
            cache, block_tokens, load.capacity, load.history, flight, batch.shared_prefix
        )

    def _place(self, grid: Array, axis: int | None) -> Array:
        """Put a grid [value, chunk] on its axes."""
        shape = [1] * len(self.shape)
        shape[-1] = grid.shape[1]
        if axis is not None:
            shape[axis] = grid.shape[0]
        return grid.reshape(shape)


def _least(arrays: list[Array]) -> Array:
    least = arrays[0]
    for array in arrays[1:]:
        least = np.minimum(least, array)
    return least


def named(batch: Batch) -> list[tuple[str, Request]]:
    """Requests of a batch with their names."""
    return [(request_name(batch, i), request) for i, request in enumerate(batch.requests)]


def least_need(problem: Problem, batch: Batch, name: str, request: Request) -> dict[str, int]:
    """Blocks by pool that one more of a request holds at least, whatever the chunk."""
    chunks = problem.prefill.candidates if problem.prefill else (None,)
    needs = {pool.name: 0 for pool in problem.pools}
    for cache in problem.caches:
        load = asked(request)
        if not load.uses(cache) or (request.capacity == 0 and cache.kind != "state"):
            continue
        block_tokens = problem.block_tokens(cache)
        own = [
            footprint(
                cache,
                block_tokens,
                load.capacity,
                load.history,
                flight_tokens(problem, cache, chunk),
                batch.shared_prefix,
            ).own
            for chunk in (chunks if cache.in_flight == "prefill" else chunks[:1])
        ]
        needs[problem.pool_of(cache)] += cache.groups * min(own)
    return needs
