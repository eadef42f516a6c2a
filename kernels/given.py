"""Given requests of a batch, summed: few as Python integers, many as int64 columns.

Caches that differ in groups, extra blocks or pool alone share one pass over the requests, and so
do windows that differ in their reach alone. Arrays are used only where no product can leave int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kvplan.kernels.instance import CacheRule, FixedRequests, GivenRequests, made
from kvplan.kernels.need import NeedTerm, blocks, placeholder_blocks
from kvplan.models.immutable.lazy import cached_property

VECTORISE_FROM = 24  # requests; below, plain integers are faster
SAFE = 2**30  # figures below this cannot overflow a product in int64
_SHARE_FROM = 4  # requests; below, a pass costs less than looking for a shared one
_INT64 = 2**63


class GivenBlocks:
    """Raw blocks of one batch's given requests.

    Attributes
    ----------
    attends : whether some request holds tokens.
    least_history : of those that do; None without any.

    Parameters
    ----------
    caches : rules of the instance.
    requests : rows, or columns where they are many.
    """

    def __init__(self, caches: Sequence[CacheRule], requests: Sequence[FixedRequests]) -> None:
        self._caches, self._requests = caches, requests
        self._columns = _arrays_of(requests) if len(requests) >= VECTORISE_FROM else None
        self.least_history: int | None = None
        self._most_history = 0
        if self._columns is None:
            self._rows = [row for row in requests if row[0]]
            histories = [history for _, history, _ in self._rows]
            if histories:
                self.least_history, self._most_history = min(histories), max(histories)
        else:
            self.least_history = self._columns.least_history
            self._most_history = self._columns.most[1]
        self.attends = self.least_history is not None

    @cached_property
    def _number(self) -> int:
        """Requests, those without tokens included."""
        if self._columns is not None:
            return int(self._columns.rows[2].sum())
        return sum([count for _, _, count in self._requests])

    @cached_property
    def _attending(self) -> int:
        """Requests with tokens."""
        if self._columns is not None:
            return self._number
        return sum([count for _, _, count in self._rows])

    def by_cache(self, terms: Sequence[NeedTerm]) -> list[int]:
        """Raw blocks of all requests by cache."""
        if len(self._requests) < _SHARE_FROM:
            totals = [_sum(self._rows, term) for term in terms]
        else:
            bare = [self._bare(term) for term in terms]
            known = self._totals(dict.fromkeys(bare))
            totals = [
                term.groups * (known[each] + self._apart(term.extra - each.extra))
                for term, each in zip(terms, bare, strict=True)
            ]
        return [
            placeholder_blocks(rule) * self._number if rule.state_blocks else total
            for rule, total in zip(self._caches, totals, strict=True)
        ]

    def _bare(self, term: NeedTerm) -> NeedTerm:
        """A term without the fields in which caches that share a pass may differ."""
        _, _, t, most, stale_from, stale_most, extra, scratch, least = term
        if scratch is None:
            extra = 0
            if stale_from is not None and self._most_history < stale_from:
                stale_from = None
        return made(NeedTerm, (0, 1, t, most, stale_from, stale_most, extra, scratch, least))

    def _apart(self, extra: int) -> int:
        """Extra blocks of all requests that a pass left out."""
        return extra and extra * self._attending

    def _totals(self, terms: Iterable[NeedTerm]) -> dict[NeedTerm, int]:
        """Sum over the requests of count x blocks, by term."""
        if self._columns is None:
            return {term: _sum(self._rows, term) for term in terms}
        if not self._is_narrow(terms):
            return {term: _sum(self._requests, term) for term in terms}
        return _array_totals(self._columns.rows, terms)

    def _is_narrow(self, terms: Iterable[NeedTerm]) -> bool:
        """Whether no product or sum of these terms leaves int64."""
        assert self._columns is not None
        largest, _, count = self._columns.most
        times = count * len(self._requests)
        for term in terms:
            bounds = (*term[1:7], term.least, *(term.scratch or ()))
            if max([each for each in bounds if each is not None]) >= SAFE:
                return False
            if (max(largest, term.least or 0) + abs(term.extra)) * times >= _INT64:
                return False
        return True


class Columns(NamedTuple):
    """Given requests as int64 arrays, and the ends of their figures, read in one pass each."""

    rows: Any  # [3, request]: capacity, history and count
    most: Sequence[int]  # by row
    least_history: int


def _arrays_of(requests: Sequence[FixedRequests]) -> Columns | None:
    """The columns of the requests; None where a figure is too large, or 0 tokens."""
    import numpy as np

    if isinstance(requests, GivenRequests):
        columns: Sequence[Sequence[int]] = requests.columns
    else:
        columns = [*zip(*requests, strict=True)]
    try:
        rows = np.array(columns, dtype=np.int64)  # [3, request]
    except OverflowError:
        return None
    most, least = rows.max(1).tolist(), rows.min(1).tolist()
    return Columns(rows, most, least[1]) if max(most) < SAFE and least[0] else None


def _sum(rows: Iterable[tuple[int, int, int]], term: NeedTerm) -> int:
    total = 0
    for capacity, history, count in rows:
        total += count * blocks(term, capacity, history)
    return total


def _array_totals(rows: Any, terms: Iterable[NeedTerm]) -> dict[NeedTerm, int]:
    """Sums over int64 arrays; windows that differ in their reach alone share a pass."""
    import numpy as np

    capacity, history, count = rows
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
