"""Budgets of a small problem: one for each rank and phase, and the bytes of what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvplan.models.elastic import Consumer, Experts, Option
from kvplan.models.pools import Pool
from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank
from kvplan.solver.oracle import memory

Array = npt.NDArray[np.int64]
MOST_BYTES = 2**56  # of one table; a sum of 64 tables stays below 2^62


class Budget(NamedTuple):
    """What lives on a rank in a phase stays within a limit."""

    rank: Rank
    phase: str
    limit: int
    staged: bool
    """Whether the prefill staging counts: in prefill, and in every phase of a physical share."""


def budgets_of(problem: Problem) -> tuple[Budget, ...]:
    """Use in a phase <= quota; where staging is the headroom, also <= the free bytes."""
    budgets = []
    for rank in problem.ranks:
        quota = memory.quota_of(rank)
        for phase in problem.phases:
            budgets.append(Budget(rank, phase, quota.bytes, phase == "prefill"))
            if quota.physical is not None:
                budgets.append(Budget(rank, phase, quota.physical, True))
    return tuple(budgets)


def table_of(columns: Sequence[Sequence[int]], lines: int) -> Array:  # [line, budget]
    """A table from its budgets' columns; raises ValueError where bytes could overflow a sum."""
    if any(abs(figure) >= MOST_BYTES for column in columns for figure in column):
        raise ValueError("expected an instance of less than 2^56 bytes, got a larger one")
    return np.array(columns, np.int64).reshape(len(columns), lines).T


def limits_of(budgets: Sequence[Budget]) -> Array:  # [budget]
    """Limits of the budgets."""
    return table_of([[budget.limit] for budget in budgets], 1).reshape(-1)


def fixed_by_budget(
    budgets: Sequence[Budget], things: Iterable[Consumer | Option]
) -> Array:  # [budget]
    """Bytes of consumers or options in every budget."""
    used, known = [0] * len(budgets), tuple(things)
    for thing in known:
        for index, budget in enumerate(budgets):
            if thing.phases is None or budget.phase in thing.phases:
                used[index] += memory.fixed_bytes(thing, budget.rank, known)
    return table_of([[taken] for taken in used], 1).reshape(-1)


def staging_by_budget(
    problem: Problem,
    budgets: Sequence[Budget],
    lines: Sequence[tuple[int | None, memory.Contexts]],
) -> Array:  # [line, budget]
    """Bytes of the staging of every chunk, with its contexts, in every budget."""
    by_stage = {
        stage: [memory.staging_bytes(problem, stage, *line) for line in lines]
        for stage in problem.stages
    }
    absent = [0] * len(lines)
    columns = [by_stage[budget.rank.stage] if budget.staged else absent for budget in budgets]
    return table_of(columns, len(lines))


def running_by_budget(
    budgets: Sequence[Budget], consumers: Iterable[Consumer]
) -> list[int]:  # [budget]
    """Bytes of each running request in every budget."""
    used = [0] * len(budgets)
    for consumer in consumers:
        for index, budget in enumerate(budgets):
            if consumer.phases is None or budget.phase in consumer.phases:
                used[index] += memory.figure_of(consumer.per_request, budget.rank)
    return used


def slots_by_budget(
    experts: Experts, budgets: Sequence[Budget], most: int
) -> Array:  # [slots, budget]
    """Bytes of 0 .. most expert slots a layer in every budget, were they to live in all of them."""
    by_stage = {
        stage: [memory.expert_bytes(experts, stage, slots) for slots in range(most + 1)]
        for stage in {budget.rank.stage for budget in budgets}
    }
    absent = [0] * (most + 1)
    columns = [
        absent if budget.phase == "load" else by_stage[budget.rank.stage] for budget in budgets
    ]
    return never_falling(table_of(columns, most + 1))


def pool_by_budget(
    pool: Pool, budgets: Sequence[Budget], allocated: Sequence[int]
) -> Array:  # [count, budget]
    """Bytes of a pool in every budget at every count of blocks."""
    absent = [0] * len(allocated)
    columns: dict[tuple[int, ...], list[int]] = {}

    def column(budget: Budget) -> list[int]:
        quota, sizes = memory.quota_of(budget.rank).bytes, [b.bytes for b in pool.layout]
        place = (quota, *[memory.figure_of(size, budget.rank) for size in sizes])
        if place not in columns:
            taken = [memory.pool_bytes(pool, budget.rank, quota, count) for count in allocated]
            columns[place] = taken
        return columns[place]

    lines = [absent if budget.phase == "load" else column(budget) for budget in budgets]
    return never_falling(table_of(lines, len(allocated)))


def never_falling(table: Array) -> Array:
    """Verify that each line of a table takes at least the line before's bytes, in every budget.

    Where that holds the fewest blocks (or slots) stand for all more of them: if any number fits,
    so does the smallest. Nothing else in the enumeration assumes that smaller is easier.
    """
    if np.any(np.diff(table, axis=0) < 0):
        raise ValueError("more takes fewer bytes somewhere: the fewest cannot stand for the others")
    return table
