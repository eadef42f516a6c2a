"""Given requests of a batch, summed: few as Python integers, many as int64 columns.

Caches that differ in groups, extra blocks or pool alone share one pass over the requests, and so
do full caches and windows that no history has outgrown. Arrays are used only where no product can
leave int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kvplan.kernels.instance import CacheRule, FixedRequests, GivenRequests
from kvplan.kernels.need import NeedTerm, blocks, placeholder_blocks

VECTORISE_FROM = 24  # requests; below, plain integers are faster
_SHARE_FROM = 4  # requests; below, a pass costs less than to look for a shared one
SAFE = 2**30  # capacities, counts, groups below this cannot overflow a product in int64
_INT64 = 2**63

Columns = tuple[list[int], list[int], list[int]]
"""Capacities, histories and counts by request."""


class GivenBlocks:
    """Raw blocks of one batch's given requests.

    Parameters
    ----------
    caches : rules of the instance.
    requests : rows, or columns where they are many.
    """

    def __init__(self, caches: Sequence[CacheRule], requests: Sequence[FixedRequests]) -> None:
        self._caches = caches
        self._columns = _columns(requests)
        self._number = sum(self._columns[2])  # placeholders included
        self._bearing = _bearing(self._columns)
        capacities, histories, counts = self._bearing
        self.attends = bool(capacities)
        self.least_history = min(histories, default=None)
        """Least history of the requests that bear attention."""
        self._most_history = max(histories, default=0)
        self._attending = sum(counts)
        self._sums: dict[NeedTerm, int] = {}
        self._arrays: tuple[Any, Any, Any] | None = None

    def by_cache(self, terms: Iterable[NeedTerm]) -> list[int]:
        """Raw blocks of all requests by cache."""
        return [
            placeholder_blocks(rule) * self._number if rule.state_blocks else self._blocks(term)
            for rule, term in zip(self._caches, terms, strict=True)
        ]

    def _blocks(self, term: NeedTerm) -> int:
        if term.scratch is not None or len(self._bearing[0]) < _SHARE_FROM:
            return self._pass(term)
        _, groups, t, most, stale_from, stale_most, extra, _, least = term
        if stale_from is not None and self._most_history < stale_from:
            stale_from = None
        bare = NeedTerm(0, 1, t, most, stale_from, stale_most, least=least)
        return groups * (self._sum(bare) + extra * self._attending)

    def _sum(self, term: NeedTerm) -> int:
        """Sum over the requests of count x blocks."""
        found = self._sums.get(term)
        if found is None:
            found = self._sums[term] = self._pass(term)
        return found

    def _pass(self, term: NeedTerm) -> int:
        if len(self._bearing[0]) >= VECTORISE_FROM and self._is_narrow(term):
            capacity, history, count = self._as_arrays()
            return int((blocks(term, capacity, history) * count).sum())
        return sum([n * int(blocks(term, c, h)) for c, h, n in zip(*self._bearing, strict=True)])

    def _is_narrow(self, term: NeedTerm) -> bool:
        """Whether no figure, product or sum leaves int64."""
        bounds = (*term[1:7], term.least, *(term.scratch or ()))
        figures = [each for each in bounds if each is not None]
        if max(figures) >= SAFE or max(map(max, self._bearing)) >= SAFE:
            return False
        capacities, _, counts = self._bearing
        each = term.groups * (max(*capacities, term.least or 0) + abs(term.extra))
        return each * max(counts) * len(counts) < _INT64

    def _as_arrays(self) -> tuple[Any, Any, Any]:
        if self._arrays is None:
            import numpy as np

            capacity, history, count = np.array(self._bearing, dtype=np.int64)  # [3, request]
            self._arrays = capacity, history, count
        return self._arrays


def _columns(requests: Sequence[FixedRequests]) -> Columns:
    if isinstance(requests, GivenRequests):
        return requests.columns
    capacities, histories, counts = zip(*requests, strict=True) if requests else ((), (), ())
    return list(capacities), list(histories), list(counts)


def _bearing(columns: Columns) -> Columns:
    """The requests that bear attention: placeholders hold state alone."""
    if all(columns[0]):
        return columns
    rows = [row for row in zip(*columns, strict=True) if row[0]]
    capacities, histories, counts = zip(*rows, strict=True) if rows else ((), (), ())
    return list(capacities), list(histories), list(counts)
