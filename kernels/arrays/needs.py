"""Raw blocks of batches for many scenarios: the rules of `need` over arrays of any shape.

Arrays have the axes [start, one per fitted capacity, scenario]; whatever does not vary is a
plain integer.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.arrays.arrays import Array, Arrays, Integers
from kvplan.kernels.arrays.scenarios import Given, RefusedError
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import FULL, BatchRequests, CacheRule, Instance
from kvplan.kernels.need import (
    NeedTerm,
    batch_flight_blocks,
    blocks,
    placeholder_blocks,
    prefix_term,
    request_blocks,
)

FOREVER = 1 << 60  # tokens: the history of a request without tokens


class BatchNeeds:
    """One batch with fitted or varying requests.

    Parameters
    ----------
    given : its varying requests, every column of shape [1, ..., scenario].
    """

    def __init__(
        self, arrays: Arrays, demand: Demand, batch: int, given: tuple[Given, ...]
    ) -> None:
        self.arrays, self.demand, self.given = arrays, demand, given
        self.instance: Instance = demand.instance
        self._index = batch
        self.batch: BatchRequests = self.instance.batches[batch]
        self.attends = self._attends()
        self._base = [self._given_blocks(chunk) for chunk in self._chunks()]
        self._shared = [self._batch_blocks(chunk) for chunk in self._chunks()]
        self._varying: list[Integers] | None = None

    def raw(
        self, capacity: Sequence[Integers], count: Sequence[Integers], chunk: Integers
    ) -> list[Integers]:
        """Raw blocks by pool at capacities and counts (by fitted request)."""
        raw = list(self.known(chunk))
        for index in self.batch.fitted:
            for pool, held in enumerate(self.own(index, capacity[index], chunk)):
                if not (isinstance(held, int) and held == 0):
                    raw[pool] = raw[pool] + count[index] * held
        for rule in self.instance.caches:
            shared = prefix_term(rule, self.batch.prefix_tokens // rule.block_tokens)
            if shared is not None and shared.stale_from is not None:
                raw[rule.pool] = raw[rule.pool] + self._live_prefix(shared, capacity)
        return raw

    def own(self, index: int, capacity: Integers, chunk: Integers) -> list[Integers]:
        """Raw blocks by pool of ONE of a fitted request's copies."""
        request = self.instance.fitted[index]
        raw: list[Integers] = [0] * len(self.instance.pools)
        for rule in self.instance.caches:
            if isinstance(capacity, int) and capacity == 0:
                blocks: Integers = placeholder_blocks(rule)
            else:
                blocks = self._blocks(rule, capacity, capacity - request.flight, chunk)
            raw[rule.pool] = raw[rule.pool] + blocks
        return raw

    def _blocks(
        self, rule: CacheRule, capacity: Integers, history: Integers, chunk: Integers
    ) -> Integers:
        prefix_blocks = self.batch.prefix_tokens // rule.block_tokens
        return request_blocks(rule, capacity, history, self.flight(rule, chunk), prefix_blocks)

    def flight(self, rule: CacheRule, chunk: Integers) -> Integers:
        """Tokens in flight of a cache."""
        if isinstance(chunk, int):
            return self.demand.flight(rule, chunk)
        return self.arrays.table(self.flights(rule), chunk)

    def flights(self, rule: CacheRule) -> list[int]:
        """The same by chunk."""
        return [self.demand.flight(rule, at) for at in range(len(self.instance.chunks))]

    def _chunks(self) -> range:
        return range(len(self.instance.chunks) if self.demand.uses_chunk else 1)

    def _attends(self) -> Integers:
        """Whether some request holds tokens: 1, 0, or an array of them."""
        if any(request.capacity for request in self.batch.fixed):
            return 1
        fitted = [self.instance.fitted[index] for index in self.batch.fitted]
        if any(request.capacity if request.is_count else request.requests for request in fitted):
            return 1
        attends: Integers = 0
        for given in self.given:
            bearing = (given.capacity > 0) & (given.count > 0)
            attends = self.arrays.greatest(attends, self.arrays.pick(bearing, 1, 0))
        return attends

    def known(self, chunk: Integers) -> list[Integers]:
        """What depends on no fitted capacity: given requests, prefix and flight."""
        if self._varying is not None and not self.demand.uses_chunk:
            return self._varying
        at = chunk if self.demand.uses_chunk else 0
        raw: list[Integers] = []
        for pool in range(len(self.instance.pools)):
            blocks = self.arrays.table([base[pool] for base in self._base], at)
            shared = self.arrays.table([base[pool] for base in self._shared], at)
            if not (isinstance(shared, int) and shared == 0):
                blocks = blocks + shared * self.attends
            raw.append(blocks)
        for given in self.given:
            for rule in self.instance.caches:
                raw[rule.pool] = raw[rule.pool] + self._varying_blocks(rule, given, chunk)
        self._varying = raw
        return raw

    def _varying_blocks(self, rule: CacheRule, given: Given, chunk: Integers) -> Array:
        blocks = self._blocks(rule, given.capacity, given.history, chunk)
        blocks = self.arrays.pick(given.capacity > 0, blocks, placeholder_blocks(rule))
        return blocks * given.count

    def _given_blocks(self, chunk: int) -> list[int]:
        """Blocks by pool of the fixed requests."""
        raw = [0] * len(self.instance.pools)
        given = self.demand.given_blocks(self._index, chunk)
        for rule, held in zip(self.instance.caches, given, strict=True):
            raw[rule.pool] += held
        return raw

    def _batch_blocks(self, chunk: int) -> list[int]:
        """Blocks by pool that a batch with tokens holds once: flight, and prefix in full."""
        raw = [0] * len(self.instance.pools)
        for rule in self.instance.caches:
            raw[rule.pool] += batch_flight_blocks(rule, self.demand.flight(rule, chunk))
            if rule.kind == FULL:
                raw[rule.pool] += rule.groups * (self.batch.prefix_tokens // rule.block_tokens)
        return raw

    def _live_prefix(self, term: NeedTerm, capacity: Sequence[Integers]) -> Integers:
        """Prefix blocks of a live window that some request still sees."""
        fixed = [request.history for request in self.batch.fixed if request.capacity]
        histories: list[Integers] = [min(fixed)] if fixed else []
        for index in self.batch.fitted:
            request = self.instance.fitted[index]
            if request.capacity if request.is_count else request.requests:
                histories.append(capacity[index] - request.flight)
        for given in self.given:
            bearing = (given.capacity > 0) & (given.count > 0)
            histories.append(self.arrays.pick(bearing, given.history, FOREVER))
        if not histories:
            return 0
        return blocks(term, 0, self.arrays.smallest(*histories)) * self.attends


class Needs:
    """All batches. Those in which nothing varies are computed once, in plain integers."""

    def __init__(self, arrays: Arrays, demand: Demand, given: tuple[Given, ...]) -> None:
        self.arrays, self.demand = arrays, demand
        instance = demand.instance
        self.moving: dict[int, BatchNeeds] = {}
        for index, batch in enumerate(instance.batches):
            mine = tuple(each for each in given if each.batch == index)
            if batch.fitted or mine:
                self.moving[index] = BatchNeeds(arrays, demand, index, mine)
        chunks = range(len(instance.chunks) if demand.uses_chunk else 1)
        self._still = [self._largest_still(chunk) for chunk in chunks]

    def still(self, chunk: int) -> list[int]:
        """The largest over the batches in which nothing varies."""
        return self._still[chunk if self.demand.uses_chunk else 0]

    def _largest_still(self, chunk: int) -> list[int]:
        instance = self.demand.instance
        raws = [
            self.demand.given(index, chunk)
            for index in range(len(instance.batches))
            if index not in self.moving
        ]
        return [max(column) for column in zip(*raws, strict=True)] or [0] * len(instance.pools)

    def batch(
        self,
        index: int,
        capacity: Sequence[Integers],
        count: Sequence[Integers],
        chunk: Integers,
    ) -> list[Integers]:
        """Raw blocks by pool of one batch."""
        if index in self.moving:
            return self.moving[index].raw(capacity, count, chunk)
        at = chunk if self.demand.uses_chunk else 0
        chunks = range(len(self._still))
        raws = [self.demand.given(index, each) for each in chunks]
        return [self.arrays.table(list(column), at) for column in zip(*raws, strict=True)]

    def largest(
        self, capacity: Sequence[Integers], count: Sequence[Integers], chunk: Integers
    ) -> list[Integers]:
        """Raw blocks by pool, the largest over batches."""
        at = chunk if self.demand.uses_chunk else 0
        found = [self.arrays.table(list(column), at) for column in zip(*self._still, strict=True)]
        for moving in self.moving.values():
            raw = moving.raw(capacity, count, chunk)
            found = [self.arrays.greatest(a, b) for a, b in zip(found, raw, strict=True)]
        return found


def refuse_capacities(instance: Instance, index: int, least: int) -> None:
    """A count-fitted request holds tokens in every scenario or in none.

    Raises
    ------
    RefusedError : its capacity varies and is a placeholder somewhere.
    """
    if least < 1 or not instance.fitted[index].capacity:
        raise RefusedError(f"{instance.fitted[index].name}: capacities vary between 0 and more")


def refuse_counts(instance: Instance, index: int, least: int) -> None:
    """A capacity-fitted request holds tokens in every scenario or in none.

    Raises
    ------
    RefusedError : its count varies and is 0 somewhere.
    """
    if least == 0 or not instance.fitted[index].requests:
        raise RefusedError(f"{instance.fitted[index].name}: counts vary between 0 and more")
