"""Raw block needs of batches: the constant part, and what variable requests add."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from kvplan.kernels.given import GivenBlocks
from kvplan.kernels.instance import (
    PREFILL,
    BatchRequests,
    CacheRule,
    Instance,
    MixRule,
    PoolRule,
    uses,
)
from kvplan.kernels.need import (
    NeedTerm,
    batch_flight_blocks,
    blocks,
    need_term,
    placeholder_blocks,
    prefix_term,
)


def pool_columns(instance: Instance) -> list[tuple[Any, ...]]:
    """The fields of `PoolRule` as columns, one entry a pool."""
    return [*zip(*instance.pools, strict=True)] or [()] * len(PoolRule._fields)


class Demand:
    """Needs of one instance; `chunk` is an index into instance.chunks.

    Attributes
    ----------
    contexts : variable requests whose capacity some staging follows.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.contexts: tuple[int, ...] = ()
        if instance.has_contexts:
            rows = [each for budget in instance.budgets for each in budget.workspaces]
            self.contexts = tuple(sorted({each.fitted for each in rows}))
        flights = [rule.flight for rule in instance.caches]
        self.uses_chunk = PREFILL in flights or bool(self.contexts)
        self.fitted_batches = [b for b, batch in enumerate(instance.batches) if batch.fitted]
        _, self.reserved, self._least, self._most, self._multiples, *use = pool_columns(instance)
        self._use = [*zip(*use, strict=True)]
        self._has_multiples = max(self._multiples, default=1) > 1
        self._shared_flights = [
            (cache, rule) for cache, rule in enumerate(instance.caches) if rule.flight_per_batch
        ]
        self._terms: dict[tuple[int, int], tuple[NeedTerm, ...]] = {}
        self._given: dict[tuple[int, int], tuple[int, ...]] = {}
        self._still: dict[int, list[int]] = {}
        self._mixes: dict[int, tuple[Fraction, ...]] = {}
        self._requests = [GivenBlocks(instance.caches, batch.fixed) for batch in instance.batches]
        self._in_cache = {
            b: [batch.in_cache(cache, instance.fitted) for cache in range(len(instance.caches))]
            for b, batch in enumerate(instance.batches)
            if batch.is_split(instance.fitted)
        }
        self.couplings = [self._couplings(batch) for batch in instance.batches]

    def flight(self, rule: CacheRule, chunk: int) -> int:
        """Tokens in flight of a cache."""
        if rule.flight != PREFILL:
            return rule.flight
        return self.instance.chunks[chunk] * self.instance.batches_in_flight

    def terms(self, batch: int, chunk: int) -> tuple[NeedTerm, ...]:
        """What a request of a batch needs, by cache."""
        prefix = self.instance.batches[batch].prefix_tokens
        key = (prefix, chunk if self.uses_chunk else 0)
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = tuple(
                [
                    need_term(rule, self.flight(rule, chunk), prefix // rule.block_tokens)
                    for rule in self.instance.caches
                ]
            )
        return found

    def terms_of(self, fitted: int, chunk: int) -> tuple[NeedTerm, ...]:
        """What a variable request needs, by cache that it uses."""
        request = self.instance.fitted[fitted]
        terms = self.terms(request.batch, chunk)
        if request.caches is None:
            return terms
        return tuple([terms[cache] for cache in request.caches])

    # --- what is constant ----------------------------------------------------------------------

    def given(self, batch: int, chunk: int) -> tuple[int, ...]:
        """Raw blocks by pool of the given requests, shared prefix and flight of a batch.

        A live window's prefix is left out where a variable capacity decides what of it is stale.
        """
        key = (batch, chunk if self.uses_chunk else 0)
        found = self._given.get(key)
        if found is None:
            found = self._given[key] = tuple(self._sum_given(batch, chunk))
        return found

    def given_blocks(self, batch: int, chunk: int) -> list[int]:
        """Raw blocks by cache of the given requests of a batch."""
        terms = self.terms(batch, chunk)
        if batch not in self._in_cache:
            return self._requests[batch].by_cache(terms)
        triples = zip(self.instance.caches, self._in_cache[batch], terms, strict=True)
        return [GivenBlocks([rule], mine.fixed).by_cache([term])[0] for rule, mine, term in triples]

    def _sum_given(self, batch: int, chunk: int) -> list[int]:
        needed = self.instance.batches[batch]
        raw = [0] * len(self.instance.pools)
        if needed.fixed or needed.partial:
            for term, held in zip(
                self.terms(batch, chunk), self.given_blocks(batch, chunk), strict=True
            ):
                raw[term.pool] += held
        if (self._shared_flights or needed.prefix_tokens) and self.attends(batch):
            for cache, rule in self._shared_flights:
                if batch not in self._in_cache or self._attends(self._in_cache[batch][cache]):
                    raw[rule.pool] += batch_flight_blocks(rule, self.flight(rule, chunk))
            coupled = set(self.couplings[batch])
            history = self.least_history(batch)
            for term in self._prefix_terms(needed):
                if term not in coupled:
                    raw[term.pool] += blocks(term, 0, history or 0)
        return raw

    def attends(self, batch: int) -> bool:
        """Whether some request of a batch holds tokens."""
        if self._requests[batch].attends:
            return True
        return self._attends(self.instance.batches[batch])

    def _attends(self, needed: BatchRequests) -> bool:
        fitted = [self.instance.fitted[index] for index in needed.fitted]
        if any(request.capacity if request.is_count else request.requests for request in fitted):
            return True
        rows = [*needed.fixed, *[row for _, row in needed.partial]]
        return any(row.capacity for row in rows)

    def _prefix_terms(self, batch: BatchRequests) -> list[NeedTerm]:
        if not batch.prefix_tokens:
            return []
        found = [
            prefix_term(rule, batch.prefix_tokens // rule.block_tokens)
            for rule in self.instance.caches
        ]
        return [term for term in found if term is not None]

    def _couplings(self, batch: BatchRequests) -> tuple[NeedTerm, ...]:
        """Shared prefixes of live windows, where a variable capacity decides what is stale."""
        if not batch.fitted or not batch.prefix_tokens:
            return ()
        requests = [self.instance.fitted[index] for index in batch.fitted]
        if not any(request.requests and not request.is_count for request in requests):
            return ()
        return tuple(term for term in self._prefix_terms(batch) if term.stale_from is not None)

    def least_history(self, batch: int) -> int | None:
        """Least history of the requests with tokens whose capacity is given."""
        least = self._requests[batch].least_history
        histories = [] if least is None else [least]
        for index in self.instance.batches[batch].fitted:
            request = self.instance.fitted[index]
            if request.is_count and request.capacity:
                histories.append(request.capacity - request.flight)
        return min(histories, default=None)

    # --- variable requests ---------------------------------------------------------------------

    def own(self, fitted: int, capacity: int, chunk: int) -> list[int]:
        """Raw blocks by pool of ONE of a variable request's copies."""
        request = self.instance.fitted[fitted]
        raw = [0] * len(self.instance.pools)
        if capacity == 0:
            for cache, rule in enumerate(self.instance.caches):
                if uses(request.caches, cache):
                    raw[rule.pool] += placeholder_blocks(rule)
            return raw
        history = capacity - request.flight
        for term in self.terms_of(fitted, chunk):
            raw[term.pool] += blocks(term, capacity, history)
        return raw

    def raw(
        self, batch: int, chunk: int, capacities: Sequence[int], counts: Sequence[int]
    ) -> list[int]:
        """Raw blocks by pool of a whole batch at given capacities and counts (by fitted)."""
        raw = list(self.given(batch, chunk))
        for index in self.instance.batches[batch].fitted:
            times = counts[index]
            if times:
                for pool, held in enumerate(self.own(index, capacities[index], chunk)):
                    raw[pool] += times * held
        if self.couplings[batch]:
            history = self._shared_history(batch, capacities)
            for term in self.couplings[batch]:
                raw[term.pool] += blocks(term, 0, history)
        return raw

    def _shared_history(self, batch: int, capacities: Sequence[int]) -> int:
        """Least history of all requests of a batch whose prefix variable capacities keep alive."""
        least = self.least_history(batch)
        histories = [] if least is None else [least]
        for index in self.instance.batches[batch].fitted:
            request = self.instance.fitted[index]
            if request.requests and not request.is_count:
                histories.append(capacities[index] - request.flight)
        return min(histories)

    def mix(self, chunk: int) -> tuple[Fraction, ...]:
        """Usable blocks by pool that one copy of the mix asks for, exact: no ceil yet.

        sum(share x need of one request alone) / resume_utilization
        """
        key = chunk if self.uses_chunk else 0
        found = self._mixes.get(key)
        if found is None:
            raw = [Fraction(0) for _ in self.instance.pools]
            for entry in self.instance.fill_mix:
                for rule in self.instance.caches:
                    raw[rule.pool] += entry.share * self._alone(rule, entry, chunk)
            pairs = zip(raw, self._use, strict=True)
            found = self._mixes[key] = tuple([held * den / num for held, (num, den) in pairs])
        return found

    def _alone(self, rule: CacheRule, entry: MixRule, chunk: int) -> int:
        """Blocks of one request in one cache, its flight included."""
        if not entry.capacity:
            return placeholder_blocks(rule)
        flight = self.flight(rule, chunk)
        held: int = blocks(need_term(rule, flight), entry.capacity, entry.history)
        return held + int(batch_flight_blocks(rule, flight))

    # --- usable blocks -------------------------------------------------------------------------

    def floors(self, chunk: int, capacities: Sequence[int], counts: Sequence[int]) -> list[int]:
        """Usable blocks by pool that every batch needs; min, multiple and structure applied."""
        floors = list(self.still_floors(chunk))
        for batch in self.fitted_batches:
            self.raise_floors(floors, self.raw(batch, chunk, capacities, counts))
        return self.legal(floors)

    def still_floors(self, chunk: int) -> list[int]:
        """Floors that the batches without a variable request set; multiples not yet applied."""
        key = chunk if self.uses_chunk else 0
        found = self._still.get(key)
        if found is None:
            found = self._still[key] = [*self._least]
            for batch, needed in enumerate(self.instance.batches):
                if not needed.fitted:
                    self.raise_floors(found, self.given(batch, chunk))
        return found

    def raise_floors(self, floors: list[int], raw: Iterable[int]) -> None:
        """floor = max(floor, ceil(raw / u)) in place."""
        for index, held in enumerate(raw):
            if held:
                num, den = self._use[index]
                need = -(-held * den // num)
                if need > floors[index]:
                    floors[index] = need

    def legal(self, floors: list[int]) -> list[int]:
        """Usable blocks rounded up to the pools' multiples."""
        if not self._has_multiples:
            return floors
        return [-(-floor // m) * m for floor, m in zip(floors, self._multiples, strict=False)]
