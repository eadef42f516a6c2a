"""Every value of every variable of a small problem, as tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kvplan.models.errors import InvalidProblem
from kvplan.models.pools import Pool
from kvplan.models.problem import Problem
from kvplan.solver.oracle import needs
from kvplan.solver.oracle.byte_tables import (
    Array,
    budgets_of,
    limits_of,
    pool_by_budget,
    running_by_budget,
    staging_by_budget,
    table_of,
)
from kvplan.solver.oracle.combinations import Settings
from kvplan.solver.oracle.enumeration.demand import Axis, Demand, capacity_axis, least_need, named
from kvplan.solver.oracle.memory import (
    Contexts,
    contexts_of,
    figure_of,
    is_allocatable,
    quota_of,
)


class PoolTable(NamedTuple):
    """All legal counts of a pool that some quota could hold, rising."""

    usable: Array  # [count]
    in_use: Array  # [count]: blocks that may be in use when a request is admitted
    bytes: Array  # [count, budget]
    reserved_bytes: Array  # [budget]: of the reserved blocks alone


class Space:
    """Tables of a problem.

    A member is one combination of fitted capacities, fitted counts and a chunk; a setting is one of
    options and expert slots. Blocks are enumerated over the tables of their pools.

    Raises
    ------
    ValueError : a table has more than `limit` lines, or a count is bounded by nothing.
    InvalidProblem : copies of a batch that needs no block.
    """

    def __init__(self, problem: Problem, limit: int) -> None:
        self.problem, self.limit, self.cells = problem, limit, 0
        self.budgets = budgets_of(problem)
        self.limits = limits_of(self.budgets)
        self.pools = [self._pool_table(pool) for pool in problem.pools]
        if problem.counts_running:
            self.pools.append(self._running_table())
        self.chunks: Sequence[int | None] = (None,)
        if problem.prefill is not None:
            self.chunks = problem.prefill.candidates
        self.axes = self._request_axes()
        self.demand = Demand(problem, self.axes, self.chunks)
        self.members = math.prod(self.demand.shape)
        self.check_size(self.members)
        self.raws = self._raws() if self.members else {}
        self.staged, self.staging = self._staging()
        self.settings = Settings(problem, self.budgets, self.check_size)

    def check_size(self, *lengths: int) -> None:
        """Count the cells of a grid; raise where all grids together have more than allowed."""
        self.cells += math.prod(lengths)
        if self.cells > self.limit:
            raise ValueError(
                f"expected an instance of at most {self.limit} cells, got {self.cells} and more"
            )

    def _pool_table(self, pool: Pool) -> PoolTable:
        """Every count up to what a quota could hold; bytes before rounding bound it from above."""
        most = [] if pool.max_blocks is None else [pool.max_blocks]
        for rank in self.problem.ranks:
            block = sum(figure_of(buffer.bytes, rank) for buffer in pool.layout)
            if block > 0:
                most.append(quota_of(rank).bytes // block - pool.reserved_blocks)
        self.check_size(min(most) + 1)
        structural = needs.structural_floors(self.problem)[pool.name]
        counts = range(0, min(most) + 1, pool.multiple_of)
        usable = [count for count in counts if count >= max(structural, pool.min_blocks)]
        usable = [count for count in usable if self._may_allocate(pool, count)]
        share = needs.headroom(self.problem, pool)
        in_use = [needs.blocks_in_use(count, share) for count in usable]
        table = pool_by_budget(
            pool, self.budgets, [count + pool.reserved_blocks for count in usable]
        )
        alone = pool_by_budget(pool, self.budgets, [pool.reserved_blocks])[0]
        return PoolTable(np.array(usable, np.int64), np.array(in_use, np.int64), table, alone)

    def _running_table(self) -> PoolTable:
        """Every number of running requests, as counts of one more pool."""
        each = running_by_budget(self.budgets, self.problem.consumers)
        most = min(
            max(0, budget.limit) // taken
            for budget, taken in zip(self.budgets, each, strict=True)
            if taken
        )
        self.check_size(most + 1)
        counts = range(most + 1)
        table = table_of([[taken * count for count in counts] for taken in each], most + 1)
        numbers = np.array(counts, np.int64)
        return PoolTable(numbers, numbers, table, np.zeros(len(each), np.int64))

    def _staging(self) -> tuple[Array, Array]:  # [member]; [line, budget]
        """Staging bytes of every chunk at every context, and which line a member has."""
        fitted = self.problem.fitted("capacity")
        entries = () if self.problem.prefill is None else self.problem.prefill.staging
        named = [e.request or next(iter(fitted), "") for e in entries if e.has_context]
        open_names = [
            name for name in dict.fromkeys(named) if name in fitted and fitted[name][1].count != 0
        ]
        axes = [[*self._axis(f"capacity:{name}")[1]] for name in open_names]
        lines = [
            (chunk, self._contexts(dict(zip(open_names, values, strict=True))))
            for values in itertools.product(*axes)
            for chunk in self.chunks
        ]
        self.check_size(len(lines))
        variables = [*[f"capacity:{name}" for name in open_names], "prefill"]
        places = [self.place_of(variable) for variable in variables]
        lengths = [*map(len, axes), len(self.chunks)]
        at: Array = np.ravel_multi_index(tuple(places), lengths).astype(np.int64)
        return at, staging_by_budget(self.problem, self.budgets, lines)

    def _contexts(self, values: Mapping[str, int]) -> Contexts:
        """Contexts where some fitted requests have these capacities."""
        capacities = {
            (batch.name, name): values.get(name, request.capacity)
            if request.fit == "capacity"
            else request.capacity
            for batch in self.problem.batches
            for name, request in named(batch)
        }
        return contexts_of(self.problem, capacities)

    def _may_allocate(self, pool: Pool, usable: int) -> bool:
        blocks = usable + pool.reserved_blocks
        return all(is_allocatable(pool, rank, blocks) for rank in self.problem.ranks)

    def _request_axes(self) -> list[Axis]:
        axes = []
        for batch in self.problem.batches:
            for name, request in named(batch):
                if request.fit == "capacity":
                    axes.append(capacity_axis(batch, name, request))
                elif request.fit == "count":
                    most = self._most_alike(least_need(self.problem, batch, name, request))
                    counts = [count for count in (most, request.count) if count is not None]
                    if not counts:
                        raise ValueError(f"expected a bound on the count of {name!r}, got none")
                    axes.append(
                        Axis(f"count:{name}", range(request.min_count or 1, min(counts) + 1))
                    )
        return axes

    def _most_alike(self, need: dict[str, int]) -> int | None:
        """Requests that the blocks in use could hold if they held nothing else."""
        bounds = [
            int(table.in_use.max(initial=0)) // need[pool.name]
            for pool, table in zip(self.problem.pools, self.pools, strict=False)
            if need[pool.name] > 0
        ]
        if self.problem.counts_running:
            bounds.append(int(self.pools[-1].usable[-1]))
        return min(bounds, default=None)

    def _raws(self) -> dict[str, Array]:  # [member, pool] by batch
        raws = {}
        for batch in self.problem.batches:
            columns = [self.demand.raw(batch, pool.name) for pool in self.problem.pools]
            if self.problem.counts_running:
                columns.append(self.demand.running(batch))
            spread = [np.broadcast_to(column, self.demand.shape).reshape(-1) for column in columns]
            raws[batch.name] = np.array(spread, np.int64).reshape(-1, self.members).T
        return raws

    def least_counts(self) -> Array:  # [member, pool]
        """Index of the fewest legal blocks that serve every batch; past the end where none do."""
        least = np.zeros((self.members, len(self.pools)), np.int64)
        for raw in self.raws.values():
            for index, table in enumerate(self.pools):
                served = np.searchsorted(table.in_use, raw[:, index])
                least[:, index] = np.maximum(least[:, index], served)
        return least

    def values_of(self, variable: str) -> Sequence[int]:
        """Domain of a variable: its axis, all settings, the legal blocks, whole copies."""
        kind, _, name = variable.partition(":")
        if kind == "blocks":
            return [int(count) for count in self.pools[self.pool_index(name)].usable]
        if kind == "copies":
            return range(
                max((int(table.in_use.max(initial=0)) for table in self.pools), default=0) + 1
            )
        if kind == "experts" or kind == "choice":
            return self.settings.values(variable)
        return (
            [chunk or 0 for chunk in self.chunks] if kind == "prefill" else self._axis(variable)[1]
        )

    def _axis(self, variable: str) -> tuple[int, Sequence[int]]:
        for index, axis in enumerate(self.axes):
            if axis.variable == variable:
                return index, axis.values
        raise KeyError(variable)

    def place_of(self, variable: str) -> Array:  # [member]
        """Where every member stands on the axis of one of its variables."""
        shape, axis = self.demand.shape, -1 if variable == "prefill" else self._axis(variable)[0]
        line = [1] * len(shape)
        line[axis] = shape[axis]
        return np.broadcast_to(np.arange(shape[axis]).reshape(line), shape).reshape(-1)

    def pool_index(self, name: str) -> int:
        """Place of a pool."""
        return [pool.name for pool in self.problem.pools].index(name)

    def refuse_empty_copies(self, batch: str) -> None:
        """Refuse to count copies of a batch that never holds a block, whatever its requests."""
        if not self.raws[batch].any():
            raise InvalidProblem.at(f"copies:{batch}", "a batch that needs blocks", "none")
