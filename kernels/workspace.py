"""Bytes of staging that grows with the prefill chunk and with the capacity of one request."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import itemgetter
from typing import Literal, NamedTuple

from kvplan.kernels.bytes import paged
from kvplan.kernels.instance import Workspace
from kvplan.kernels.largest import bisect_largest

_MOST_TOKENS = 1 << 63


def workspace_bytes(workspace: Workspace, chunk: int, capacity: int) -> int:
    """max over the parts of ceil((base + slope x C) / den) + table(C), each rounded up.

    Parameters
    ----------
    chunk : its index.
    capacity : C, tokens.
    """
    largest = 0
    for bases, slopes, den, table, granule in workspace.parts:
        taken = -(-(bases[chunk] + slopes[chunk] * capacity) // den)
        if table:
            taken += table[bisect_left(table, capacity, key=itemgetter(0))][1]
        largest = max(largest, paged(taken, granule))
    return largest


def workspaces_bytes(
    workspaces: Iterable[Workspace], chunk: int, capacities: tuple[int, ...]
) -> int:
    """The sum over all workspaces of a budget; capacities by variable request."""
    return sum([workspace_bytes(each, chunk, capacities[each.fitted]) for each in workspaces])


class AtChunk(NamedTuple):
    """The workspaces of one request in a budget at one chunk: the growth of its tokens."""

    workspaces: tuple[Workspace, ...]
    chunk: int

    def __bool__(self) -> Literal[False]:
        return False

    def taken(self, capacity: int, /) -> int:
        """Bytes at a capacity."""
        return sum([workspace_bytes(each, self.chunk, capacity) for each in self.workspaces])

    def most(self, limit: int, /) -> int:
        """The largest capacity within a limit; -1 where none is."""
        if self.taken(0) > limit:
            return -1
        ends = [part.table[-1][0] for each in self.workspaces for part in each.parts if part.table]
        high = min(ends, default=_MOST_TOKENS)
        return bisect_largest(lambda capacity: self.taken(capacity) <= limit, 0, high)
