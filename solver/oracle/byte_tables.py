"""Byte rows of a small problem: one for each rank and phase, and the bytes of what is in them."""

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


class Row(NamedTuple):
    """What lives on a rank in a phase stays within a limit."""

    rank: Rank
    phase: str
    limit: int
    staged: bool
    """Whether the prefill staging counts: in prefill, and in every phase of a physical share."""


def rows_of(problem: Problem) -> tuple[Row, ...]:
    """Every row: use in a phase <= quota; where staging is the headroom, also <= the free bytes."""
    rows = []
    for rank in problem.ranks:
        quota = memory.quota_of(rank)
        for phase in problem.phases:
            rows.append(Row(rank, phase, quota.bytes, phase == "prefill"))
            if quota.physical is not None:
                rows.append(Row(rank, phase, quota.physical, True))
    return tuple(rows)


def table_of(columns: Sequence[Sequence[int]], lines: int) -> Array:  # [line, row]
    """A table from the columns of its rows; raises ValueError where bytes could overflow a sum."""
    if any(abs(figure) >= MOST_BYTES for column in columns for figure in column):
        raise ValueError("expected an instance of less than 2^56 bytes, got a larger one")
    return np.array(columns, np.int64).reshape(len(columns), lines).T


def limits_of(rows: Sequence[Row]) -> Array:  # [row]
    """Limits of the rows."""
    return table_of([[row.limit] for row in rows], 1).reshape(-1)


def fixed_row(rows: Sequence[Row], things: Iterable[Consumer | Option]) -> Array:  # [row]
    """Bytes of consumers or options in every row."""
    used = [0] * len(rows)
    for thing in things:
        for index, row in enumerate(rows):
            if thing.phases is None or row.phase in thing.phases:
                used[index] += memory.fixed_bytes(thing, row.rank)
    return table_of([[taken] for taken in used], 1).reshape(-1)


def staging_rows(
    problem: Problem, rows: Sequence[Row], chunks: Sequence[int | None]
) -> Array:  # [chunk, row]
    """Bytes of the staging of every chunk in every row."""
    by_stage = {
        stage: [memory.staging_bytes(problem, stage, chunk) for chunk in chunks]
        for stage in problem.stages
    }
    absent = [0] * len(chunks)
    columns = [by_stage[row.rank.stage] if row.staged else absent for row in rows]
    return table_of(columns, len(chunks))


def slot_rows(experts: Experts, rows: Sequence[Row], most: int) -> Array:  # [slots, row]
    """Bytes of 0 .. most expert slots a layer in every row, were they to live in all of them."""
    by_stage = {
        stage: [memory.expert_bytes(experts, stage, slots) for slots in range(most + 1)]
        for stage in {row.rank.stage for row in rows}
    }
    absent = [0] * (most + 1)
    columns = [absent if row.phase == "load" else by_stage[row.rank.stage] for row in rows]
    return never_falling(table_of(columns, most + 1))


def pool_rows(pool: Pool, rows: Sequence[Row], allocated: Sequence[int]) -> Array:  # [count, row]
    """Bytes of a pool in every row at every count of blocks."""
    absent = [0] * len(allocated)
    columns: dict[tuple[int, int], list[int]] = {}

    def column(row: Row) -> list[int]:
        place = (row.rank.stage, memory.quota_of(row.rank).bytes)
        if place not in columns:
            columns[place] = [memory.pool_bytes(pool, *place, count) for count in allocated]
        return columns[place]

    lines = [absent if row.phase == "load" else column(row) for row in rows]
    return never_falling(table_of(lines, len(allocated)))


def never_falling(table: Array) -> Array:
    """Verify that each line of a table takes at least the bytes of the line before, in every row.

    Where that holds the fewest blocks (or slots) stand for all more of them: if any number fits,
    so does the smallest. Nothing else in the enumeration takes the smaller for the easier.
    """
    if np.any(np.diff(table, axis=0) < 0):
        raise ValueError("more takes fewer bytes somewhere: the fewest cannot stand for the others")
    return table
