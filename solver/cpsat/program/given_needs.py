"""Blocks that requests with given capacity and count need: constants of the integer program.

Stated again here, so that CP-SAT's proofs are independent of the search. Figures are
Python integers, or columns of NumPy (int64 while nothing can overflow, else Python integers).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from kvplan.kernels.instance import (
    FLIGHT,
    FULL,
    LIVE,
    PEAK,
    PREFILL,
    STATE,
    BatchRequests,
    CacheRule,
    FixedRequests,
    GivenRequests,
    Instance,
)

Integers = Any
"""A Python integer or a column of them."""

_COLUMNS_FROM = 24  # requests; below, plain integers are faster
_WIDE = 2**31  # beyond it a column of int64 might overflow


def needed_blocks(
    rule: CacheRule, capacity: Integers, history: Integers, flight: int, prefix_blocks: int
) -> Integers:
    """Blocks of one request with C > 0 in one cache, groups and extra blocks included.

    Blocks [B, ceil(C/t)) are its own. A live window frees those in [S, (H+1-W)//t), and of blocks
    that only this prefill writes and rewinds over, a fraction is kept as scratch.
    """
    t = rule.block_tokens
    end = -(-capacity // t)
    if rule.kind == STATE:
        own = rule.state_blocks + 0 * end
    elif rule.kind == PEAK:
        own = _lesser(end, rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1)
    elif rule.kind == FLIGHT:
        tokens = rule.reach + (0 if rule.flight_per_batch else flight)
        own = -(-_lesser(capacity, tokens) // t)
    else:
        own = _length(prefix_blocks, end)
    if rule.kind != LIVE:
        return rule.groups * (own + rule.extra_blocks)
    first = max(rule.sink_blocks, prefix_blocks)
    own = own - _length(first, (history + 1 - rule.reach) // t) + rule.extra_blocks
    if rule.scratch is not None:
        numerator, denominator = rule.scratch
        written = first + _length(first, -(-history // t))
        freed = (_length(0, capacity - rule.rewind) + 1 - rule.reach) // t
        scratch = _length(written, freed)
        own = _length(0, own - scratch + -(-scratch * numerator // denominator))
    return rule.groups * own


def _length(start: Integers, end: Integers) -> Integers:
    """Blocks in [start, end): none where it ends before it starts."""
    return (end - start) * (end > start)


def _lesser(column: Integers, most: int) -> Integers:
    """The smaller of two."""
    return column - _length(most, column)


class Given:
    """Raw blocks of what no variable decides, by batch and tokens in flight of the prefill."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._requests = [_Requests(instance, batch) for batch in instance.batches]
        self._in_cache = {
            (b, cache): _Requests(instance, batch.in_cache(cache, instance.fitted))
            for b, batch in enumerate(instance.batches)
            if batch.is_split(instance.fitted)
            for cache in range(len(instance.caches))
        }
        self._known: dict[tuple[int, int], list[int]] = {}  # by batch and chunk

    @property
    def chunk_matters(self) -> bool:
        """Whether some cache's flight follows the chunk."""
        return any(rule.flight == PREFILL for rule in self.instance.caches)

    def flight(self, rule: CacheRule, chunk: int) -> int:
        """Tokens in flight of a cache."""
        if rule.flight != PREFILL:
            return rule.flight
        return self.instance.chunks[chunk] * self.instance.batches_in_flight

    def raw(self, batch: int, chunk: int) -> list[int]:
        """Raw blocks by pool: given requests, the batch's flight, a prefix no capacity decides."""
        key = (batch, chunk if self.chunk_matters else 0)
        if key not in self._known:
            raw = [0] * len(self.instance.pools)
            for cache, rule in enumerate(self.instance.caches):
                requests = self._in_cache.get((batch, cache), self._requests[batch])
                raw[rule.pool] += requests.blocks(cache, self.flight(rule, chunk))
            self._known[key] = raw
        return self._known[key]

    def one(self, fitted: int, chunk: int) -> list[int]:
        """Raw blocks by pool of one of the requests whose count is a variable."""
        request = self.instance.fitted[fitted]
        prefix = self.instance.batches[request.batch].prefix_tokens
        raw = [0] * len(self.instance.pools)
        for cache, rule in enumerate(self.instance.caches):
            if request.caches is not None and cache not in request.caches:
                continue
            if request.capacity:
                sizes = request.capacity, request.capacity - request.flight
                shared = prefix // rule.block_tokens
                raw[rule.pool] += needed_blocks(rule, *sizes, self.flight(rule, chunk), shared)
            else:
                raw[rule.pool] += placeholder_blocks(rule)
        return raw

    def stale_end(self, batch: int, rule: CacheRule) -> int | None:
        """Least end of what is stale over the requests whose history is given; None: no such."""
        least = self._requests[batch].least_history
        return None if least is None else (least + 1 - rule.reach) // rule.block_tokens

    def prefix_is_open(self, batch: int, rule: CacheRule) -> bool:
        """Whether a capacity that is a variable decides how much of a shared prefix is stale."""
        if rule.kind != LIVE or self.instance.batches[batch].prefix_tokens < rule.block_tokens:
            return False
        return self._requests[batch].has_open_history


def placeholder_blocks(rule: CacheRule) -> int:
    """Blocks of a request without tokens: its state."""
    return rule.groups * (rule.state_blocks + rule.extra_blocks) if rule.kind == STATE else 0


def mix_needs(instance: Instance, chunk: int) -> list[Fraction]:
    """Usable blocks by pool that one copy of the fill mix takes: each request alone in a batch."""
    found = [Fraction(0) for _ in instance.pools]
    for entry in instance.fill_mix:
        request = FixedRequests(entry.capacity, entry.history, 1)
        raw = Given(instance._replace(batches=(BatchRequests("mix", 0, (request,), ()),))).raw(
            0, chunk
        )
        found = [held + entry.share * blocks for held, blocks in zip(found, raw, strict=True)]
    pairs = zip(found, instance.pools, strict=True)
    return [held * pool.use_den / pool.use_num for held, pool in pairs]


class _Requests:
    """The given requests of one batch, as rows or as columns."""

    def __init__(self, instance: Instance, batch: BatchRequests) -> None:
        self._caches, self._prefix = instance.caches, batch.prefix_tokens
        requests = batch.fixed
        plain = list(requests.plain() if isinstance(requests, GivenRequests) else requests)
        self._with_tokens = [request for request in plain if request[0]]
        self._placeholders = sum([count for capacity, _, count in plain if not capacity])
        self._columns = _columns(self._with_tokens)
        self._known: dict[tuple[int, int], int] = {}  # by cache and flight
        fitted = [instance.fitted[index] for index in batch.fitted]
        counted = [f.capacity - f.flight for f in fitted if f.is_count and f.capacity]
        self.has_open_history = any(f.requests for f in fitted if not f.is_count)
        histories = chain([history for _, history, _ in self._with_tokens], counted)
        self.least_history: int | None = min(histories, default=None)
        self._attends = self.has_open_history or self.least_history is not None

    def blocks(self, cache: int, flight: int) -> int:
        """Raw blocks in one cache."""
        rule = self._caches[cache]
        follows = rule.kind in (PEAK, FLIGHT)
        key = (cache, flight if follows else 0)
        if key not in self._known:
            shared = self._prefix // rule.block_tokens
            entries = self._columns or self._with_tokens
            needs = [n * needed_blocks(rule, c, h, flight, shared) for c, h, n in entries]
            own = sum([int(need.sum()) for need in needs] if self._columns else needs)
            own += self._placeholders * placeholder_blocks(rule)
            self._known[key] = own + (self._together(rule, flight, shared) if self._attends else 0)
        return self._known[key]

    def _together(self, rule: CacheRule, flight: int, shared: int) -> int:
        """What a batch with tokens holds once: a flight of all, a prefix that is decided."""
        if rule.kind == FLIGHT and rule.flight_per_batch:
            return rule.groups * -(-flight // rule.block_tokens)
        if rule.kind == FULL:
            return rule.groups * shared
        if rule.kind != LIVE or self.has_open_history or self.least_history is None:
            return 0
        end = (self.least_history + 1 - rule.reach) // rule.block_tokens
        return rule.groups * (shared - int(_length(rule.sink_blocks, min(shared, end))))


def _columns(
    requests: Sequence[FixedRequests | tuple[int, int, int]],
) -> list[tuple[Any, Any, Any]]:
    """Capacities, histories and counts of many requests as one entry; none for a few."""
    if len(requests) < _COLUMNS_FROM:
        return []
    import numpy as np

    is_narrow = max(map(max, requests)) < _WIDE and sum([count for _, _, count in requests]) < _WIDE
    table = np.array(requests, dtype=np.int64 if is_narrow else object)
    return [(table[:, 0], table[:, 1], table[:, 2])]
