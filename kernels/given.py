"""Given requests of a batch, summed: few as Python integers, many as int64 columns.

Caches that differ in groups, extra blocks or pool alone share one pass over the requests, and so
do full caches and windows that no history has outgrown. Arrays are used only where no product can
leave int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        columns = _columns(requests)
        self._number = sum(columns[2])  # placeholders included
        self._bearing = _bearing(columns)
        capacities, histories, counts = self._bearing
        self.attends = bool(capacities)
        self.least_history = min(histories, default=None)
        """Least history of the requests that bear attention."""
        self._most_history = max(histories, default=0)
        self._attending = self._number if columns is self._bearing else sum(counts)

    def by_cache(self, terms: Iterable[NeedTerm]) -> list[int]:
        """Raw blocks of all requests by cache."""
        pairs = list(zip(self._caches, terms, strict=True))
        if len(self._bearing[0]) < _SHARE_FROM:
            return [
                placeholder_blocks(rule) * self._number
                if rule.state_blocks
                else sum(
                    [n * int(blocks(term, c, h)) for c, h, n in zip(*self._bearing, strict=True)]
                )
                for rule, term in pairs
            ]
        bare = [self._bare(term) for _, term in pairs]
        totals = self._totals(dict.fromkeys(bare))
        return [
            placeholder_blocks(rule) * self._number
            if rule.state_blocks
            else term.groups * (totals[each] + (term.extra - each.extra) * self._attending)
            for (rule, term), each in zip(pairs, bare, strict=True)
        ]

    def _bare(self, term: NeedTerm) -> NeedTerm:
        """A term without what several caches may differ in and still share a pass."""
        _, _, t, most, stale_from, stale_most, extra, scratch, least = term
        if scratch is None:
            extra = 0
            if stale_from is not None and self._most_history < stale_from:
                stale_from = None
        return NeedTerm(0, 1, t, most, stale_from, stale_most, extra, scratch, least)

    def _totals(self, terms: Iterable[NeedTerm]) -> dict[NeedTerm, int]:
        """Sum over the requests of count x blocks, by term."""
        rows = list(zip(*self._bearing, strict=True))
        if len(rows) < VECTORISE_FROM or not self._is_narrow(terms):
            return {term: sum([n * blocks(term, c, h) for c, h, n in rows]) for term in terms}
        return self._array_totals(terms)

    def _array_totals(self, terms: Iterable[NeedTerm]) -> dict[NeedTerm, int]:
        """The same over int64 arrays; windows that differ in their reach alone share a pass."""
        import numpy as np

        capacity, history, count = np.array(self._bearing, dtype=np.int64)  # [3, request]
        found: dict[NeedTerm, int] = {}
        windows: dict[NeedTerm, list[NeedTerm]] = {}
        for term in terms:
            if term.stale_from is None or term.scratch is not None:
                found[term] = int(blocks(term, capacity, history) @ count)
            else:
                windows.setdefault(term._replace(stale_from=None), []).append(term)
        for shape, alike in windows.items():
            starts = np.array([[term.stale_from] for term in alike])  # [term, 1]
            held = blocks(shape._replace(stale_from=starts), capacity, history)  # [term, request]
            found.update(zip(alike, (held @ count).tolist(), strict=True))
        return found

    def _is_narrow(self, terms: Iterable[NeedTerm]) -> bool:
        """Whether no figure, product or sum leaves int64."""
        capacities, _, counts = self._bearing
        largest, times = max(max(capacities), self._most_history), max(counts)
        if largest >= SAFE or times >= SAFE:
            return False
        for term in terms:
            bounds = (*term[1:7], term.least, *(term.scratch or ()))
            if max([each for each in bounds if each is not None]) >= SAFE:
                return False
            each_blocks = max(largest, term.least or 0) + abs(term.extra)
            if each_blocks * times * len(counts) >= _INT64:
                return False
        return True


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
