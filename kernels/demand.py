"""Raw block needs of batches: what is constant, and what fitted requests add."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from kvplan.kernels.instance import (
    FULL,
    LIVE,
    PREFILL,
    BatchRequests,
    CacheRule,
    FixedRequests,
    GivenRequests,
    Instance,
)
from kvplan.kernels.many import Columns, blocks_of, columns_of, few_simple_blocks, simple_blocks_of
from kvplan.kernels.need import (
    batch_flight_blocks,
    is_simple,
    placeholder_blocks,
    request_blocks,
    simple_blocks,
    stale_end,
)

VECTORISE_FROM = 24  # requests of a batch; below, plain integers are faster
VECTORISE_SIMPLE_FROM = 64  # the same where all caches are simple
_MOST_KNOWN = 1 << 14  # needs of single capacities that are kept


class Coupling(NamedTuple):
    """A live cache whose shared prefix depends on fitted capacities of the batch."""

    rule: CacheRule
    prefix_blocks: int
    fixed_end: int | None  # least stale end of the requests that are given


class Demand:
    """Needs of one problem; `chunk` is an index into instance.chunks."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.uses_chunk = self._per_batch = False
        self._all_simple = True
        for rule in instance.caches:
            if rule.flight == PREFILL:
                self.uses_chunk = True
            if rule.flight_per_batch:
                self._per_batch = True
            if not is_simple(rule):
                self._all_simple = False
        self.couplings = tuple([self._couplings(batch) for batch in instance.batches])
        self._fixed: dict[tuple[int, int], tuple[int, ...]] = {}
        self._own: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._columns: dict[str, Columns | None] = {}  # by batch
        self._bounds: dict[int, int] = {}
        self._given: dict[int, list[int]] = {}
        self._use = [(pool.use_num, pool.use_den) for pool in instance.pools]
        self.fitted_batches = [b for b, batch in enumerate(instance.batches) if batch.fitted]
        self.has_multiples = max([pool.multiple for pool in instance.pools], default=1) > 1

    def flight(self, rule: CacheRule, chunk: int) -> int:
        """Tokens in flight of a cache."""
        if rule.flight != PREFILL:
            return rule.flight
        return self.instance.chunks[chunk] * self.instance.batches_in_flight

    def fixed(self, batch: int, chunk: int) -> tuple[int, ...]:
        """Raw blocks by pool of the given requests, shared prefix and flight of a batch."""
        key = (batch, chunk if self.uses_chunk else 0)
        if key not in self._fixed:
            self._fixed[key] = self._compute_fixed(self.instance.batches[batch], batch, chunk)
        return self._fixed[key]

    def own(self, fitted: int, capacity: int, chunk: int) -> tuple[int, ...]:
        """Raw blocks by pool of ONE of a fitted request's copies."""
        key = (fitted, capacity, chunk if self.uses_chunk else 0)
        known = self._own.get(key)
        if known is None:
            if len(self._own) >= _MOST_KNOWN:
                self._own.clear()
            known = self._own[key] = self._compute_own(fitted, capacity, chunk)
        return known

    def bounded(self, fitted: int, above: int) -> Demand:
        """The same demand with a monotone bound for one fitted capacity's live windows.

        A live window holds K or K + 1 blocks once it slides, K = S + ceil((W + d - 1) / t); the
        bound is min(ceil(C/t), K + above): from below with 0, from above with 1.
        """
        twin = copy(self)
        twin._own = {}
        twin._bounds = {**self._bounds, fitted: above}
        return twin

    def _compute_own(self, fitted: int, capacity: int, chunk: int) -> tuple[int, ...]:
        request = self.instance.fitted[fitted]
        prefix = self.instance.batches[request.batch].prefix_tokens
        raw = [0] * len(self.instance.pools)
        history = capacity - request.flight
        if self._all_simple and capacity and not prefix and not self._bounds:
            for rule in self.instance.caches:
                raw[rule.pool] += simple_blocks(rule, capacity, history)
            return tuple(raw)
        for rule in self.instance.caches:
            if rule.kind == LIVE and fitted in self._bounds:
                raw[rule.pool] += self._bound(rule, capacity, request.flight, fitted)
            else:
                raw[rule.pool] += self._one(rule, capacity, history, chunk, prefix)
        return tuple(raw)

    def _bound(self, rule: CacheRule, capacity: int, flight: int, fitted: int) -> int:
        sliding = rule.sink_blocks + -(-(rule.reach + flight - 1) // rule.block_tokens)
        blocks = min(-(-capacity // rule.block_tokens), sliding + self._bounds[fitted])
        return rule.groups * (blocks + rule.extra_blocks)

    def _one(
        self, rule: CacheRule, capacity: int, history: int, chunk: int, prefix_tokens: int
    ) -> int:
        if capacity == 0:
            return placeholder_blocks(rule)
        if not prefix_tokens and is_simple(rule):
            return simple_blocks(rule, capacity, history)
        flight = self.flight(rule, chunk)
        prefix_blocks = prefix_tokens // rule.block_tokens
        return int(request_blocks(rule, capacity, history, flight, prefix_blocks))

    def raw(
        self, batch: int, chunk: int, capacity: tuple[int, ...], count: tuple[int, ...]
    ) -> list[int]:
        """Raw blocks by pool of a whole batch at given capacities and counts (by fitted)."""
        raw = list(self.fixed(batch, chunk))
        for index in self.instance.batches[batch].fitted:
            times = count[index]
            if not times:
                continue
            for pool, blocks in enumerate(self.own(index, capacity[index], chunk)):
                if blocks:
                    raw[pool] += times * blocks
        for coupling in self.couplings[batch]:
            raw[coupling.rule.pool] += self._shared(batch, coupling, capacity)
        return raw

    def floors(self, chunk: int, capacity: tuple[int, ...], count: tuple[int, ...]) -> list[int]:
        """Usable blocks by pool that every batch needs; min, multiple and structure applied."""
        floors = list(self._given_floors(chunk))
        for batch in self.fitted_batches:
            self._raise_floors(floors, self.raw(batch, chunk, capacity, count))
        if self.has_multiples:
            return [
                -(-floor // pool.multiple) * pool.multiple
                for floor, pool in zip(floors, self.instance.pools, strict=True)
            ]
        return floors

    def floors_without(
        self, left_out: int, chunk: int, capacity: tuple[int, ...], count: tuple[int, ...]
    ) -> list[int]:
        """The same without one batch that has a fitted request, multiples not yet applied."""
        floors = list(self._given_floors(chunk))
        for batch in self.fitted_batches:
            if batch != left_out:
                self._raise_floors(floors, self.raw(batch, chunk, capacity, count))
        return floors

    def _given_floors(self, chunk: int) -> list[int]:
        """Floors that the batches without a fitted request set, whatever the variables."""
        key = chunk if self.uses_chunk else 0
        if key not in self._given:
            floors = [pool.least for pool in self.instance.pools]
            for batch, instance in enumerate(self.instance.batches):
                if not instance.fitted:
                    self._raise_floors(floors, self.fixed(batch, chunk))
            self._given[key] = floors
        return self._given[key]

    def _raise_floors(self, floors: list[int], raw: Sequence[int]) -> None:
        """floor = max(floor, ceil(raw / u)) in place."""
        for index, (num, den) in enumerate(self._use):
            need = -(-raw[index] * den // num)
            if need > floors[index]:
                floors[index] = need

    def _shared(self, batch: int, coupling: Coupling, capacity: tuple[int, ...]) -> int:
        """B less the blocks stale for every request: [S, min(B, least stale end))."""
        rule, shared, end = coupling
        ends = [] if end is None else [end]
        for index in self.instance.batches[batch].fitted:
            request = self.instance.fitted[index]
            if request.requests and not request.is_count:
                ends.append(stale_end(capacity[index] - request.flight, rule))
        dead = max(0, min(shared, *ends) - rule.sink_blocks)
        return rule.groups * (shared - dead)

    def _couplings(self, batch: BatchRequests) -> tuple[Coupling, ...]:
        """Live caches with a prefix in a batch where some capacity is fitted."""
        if not batch.fitted or not batch.prefix_tokens:
            return ()
        requests = [self.instance.fitted[index] for index in batch.fitted]
        if not any(request.requests and not request.is_count for request in requests):
            return ()
        return tuple(
            Coupling(rule, batch.prefix_tokens // rule.block_tokens, self._fixed_end(batch, rule))
            for rule in self.instance.caches
            if rule.kind == LIVE and batch.prefix_tokens >= rule.block_tokens
        )

    def _fixed_end(self, batch: BatchRequests, rule: CacheRule) -> int | None:
        """Least stale end over the attention-bearing requests whose capacity is given."""
        histories = [request.history for request in batch.fixed if request.capacity]
        for index in batch.fitted:
            request = self.instance.fitted[index]
            if request.is_count and request.capacity:
                histories.append(request.capacity - request.flight)
        return int(stale_end(min(histories), rule)) if histories else None

    def _compute_fixed(self, instance: BatchRequests, batch: int, chunk: int) -> tuple[int, ...]:
        raw = [0] * len(self.instance.pools)
        if instance.fixed:
            given = self.given_blocks(instance, chunk)
            for rule, blocks in zip(self.instance.caches, given, strict=True):
                raw[rule.pool] += blocks
        if (self._per_batch or instance.prefix_tokens) and self._attends(instance):
            coupled = {coupling.rule for coupling in self.couplings[batch]}
            for rule in self.instance.caches:
                raw[rule.pool] += batch_flight_blocks(rule, self.flight(rule, chunk))
                if rule not in coupled:
                    raw[rule.pool] += self._fixed_prefix(rule, instance)
        return tuple(raw)

    def _attends(self, instance: BatchRequests) -> bool:
        """Whether some request of a batch bears attention."""
        fitted = [self.instance.fitted[index] for index in instance.fitted]
        return any(request.capacity for request in instance.fixed) or any(
            request.capacity if request.is_count else request.requests for request in fitted
        )

    def _fixed_prefix(self, rule: CacheRule, instance: BatchRequests) -> int:
        """Shared prefix blocks of a cache when no fitted capacity decides what is stale."""
        shared = instance.prefix_tokens // rule.block_tokens
        if rule.kind == FULL:
            return rule.groups * shared
        if rule.kind != LIVE or not shared:
            return 0
        end = self._fixed_end(instance, rule)
        return rule.groups * (shared - max(0, min(shared, end or 0) - rule.sink_blocks))

    def given_blocks(self, instance: BatchRequests, chunk: int) -> list[int]:
        """Raw blocks by cache of the given requests of a batch."""
        rules, prefix = self.instance.caches, instance.prefix_tokens
        rows: Sequence[FixedRequests] = instance.fixed
        if self._all_simple and not prefix and len(rows) < VECTORISE_SIMPLE_FROM:
            plain = rows.plain() if isinstance(rows, GivenRequests) else rows
            return few_simple_blocks(rules, plain)
        if len(rows) < VECTORISE_FROM:
            return [
                sum([n * self._one(rule, c, h, chunk, prefix) for c, h, n in rows])
                for rule in rules
            ]
        if instance.name not in self._columns:
            self._columns[instance.name] = columns_of(rows)
        columns = self._columns[instance.name]
        simple = {} if prefix else simple_blocks_of(rules, columns)
        return [
            simple[rule]
            if rule in simple
            else blocks_of(
                rule, rows, columns, self.flight(rule, chunk), prefix // rule.block_tokens
            )
            for rule in rules
        ]
