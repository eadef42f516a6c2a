"""Least needs of a batch while some of its capacities are open.

A live window makes needs fall and rise again within a period, so an open capacity has several
least needs, none of which undercuts another. They are summed request by request, and what another
sum undercuts is dropped after every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvplan.kernels.demand import Demand
from kvplan.kernels.need import stale_blocks
from kvplan.kernels.residues import Residues
from kvplan.kernels.search.bounds import Bounds

PRUNE_FROM = 4  # fewer needs are not worth comparing
_COMPARE_AT_ONCE = 64


class Needed(NamedTuple):
    """A need of some requests of a batch."""

    raw: tuple[int, ...]  # blocks by pool
    stale: tuple[int, ...]  # stale blocks of the shared prefix, by coupling of the batch
    at: tuple[tuple[int, int], ...]  # (variable request, value) that need it


class Undecided:
    """Least needs, kept by what they depend on; limits are no part of it."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        instance = demand.instance
        self.residues = [
            None if fitted.is_count else Residues(instance, index)
            for index, fitted in enumerate(instance.fitted)
        ]
        self._contexts = frozenset(demand.contexts)
        self._least: dict[tuple[int, int, int, int], list[Needed]] = {}

    def of_batch(self, batch: int, bounds: Bounds, without: int | None = None) -> list[Needed]:
        """Least needs of a batch, given requests included.

        Parameters
        ----------
        without : a variable request that is left out.
        """
        demand = self.demand
        given = demand.given(batch, bounds.chunk)
        couplings = demand.couplings[batch]
        history = demand.least_history(batch) if couplings else None
        stale = [
            (term.stale_most or 0) if history is None else stale_blocks(term, history)
            for term in couplings
        ]
        found = [Needed(given, tuple(stale), ())]
        for index in demand.instance.batches[batch].fitted:
            if index != without:
                mine = self._of_request(index, bounds)
                found = _undominated([_sum(a, b) for a in found for b in mine], self._contexts)
        return found

    def _of_request(self, index: int, bounds: Bounds) -> list[Needed]:
        low, high = bounds.low[index], bounds.high[index]
        residues = self.residues[index]
        if residues is None:
            raw = self.demand.own(index, self.demand.instance.fitted[index].capacity, bounds.chunk)
            stale = self._stale_of_given(index)
            return [Needed(tuple([low * held for held in raw]), stale, ((index, low),))]
        assert high is not None
        key = (index, low, high, bounds.chunk if self.demand.uses_chunk else 0)
        found = self._least.get(key)
        if found is None:
            points = [low] if low == high else residues.least(low, high)
            needs = [self._need(index, point, bounds.chunk) for point in points]
            found = self._least[key] = _undominated(needs, self._contexts)
        return found

    def _need(self, index: int, capacity: int, chunk: int) -> Needed:
        request = self.demand.instance.fitted[index]
        raw = self.demand.own(index, capacity, chunk)
        if request.requests != 1:
            raw = [request.requests * held for held in raw]
        couplings = self.demand.couplings[request.batch]
        if not request.requests:
            return Needed(tuple(raw), self._stale_of_given(index), ((index, capacity),))
        stale = [stale_blocks(term, capacity - request.flight) for term in couplings]
        return Needed(tuple(raw), tuple(stale), ((index, capacity),))

    def _stale_of_given(self, index: int) -> tuple[int, ...]:
        """Everything: a request that no variable moves counts among the given ones."""
        couplings = self.demand.couplings[self.demand.instance.fitted[index].batch]
        return tuple([term.stale_most or 0 for term in couplings])

    def whole(self, batch: int, needed: Needed) -> list[int]:
        """Raw blocks by pool with the shared prefix that stays alive."""
        raw = list(needed.raw)
        for term, stale in zip(self.demand.couplings[batch], needed.stale, strict=True):
            raw[term.pool] += term.groups * (term.extra - stale)
        return raw


def _sum(a: Needed, b: Needed) -> Needed:
    return Needed(
        tuple([x + y for x, y in zip(a.raw, b.raw, strict=True)]),
        tuple(map(min, a.stale, b.stale)),
        (*a.at, *b.at),
    )


def _undominated(needs: list[Needed], contexts: frozenset[int]) -> list[Needed]:
    """Without the needs that another one undercuts; of equal ones the first."""
    if len(needs) < PRUNE_FROM:
        return needs
    keys = [(*need.raw, *[-stale for stale in need.stale]) for need in needs]
    if contexts:
        tokens = [[value for index, value in need.at if index in contexts] for need in needs]
        keys = [(*key, *more) for key, more in zip(keys, tokens, strict=True)]
    return [needs[place] for place in undominated(keys)]


def undominated(vectors: Sequence[tuple[int, ...]]) -> list[int]:
    """Places of the vectors that no other one undercuts; of equal ones the first."""
    first: dict[tuple[int, ...], int] = {}
    for place, vector in enumerate(vectors):
        first.setdefault(vector, place)
    if len(first) >= _COMPARE_AT_ONCE and max(map(max, first)) < 1 << 62:
        return _undominated_arrays(first)
    kept: list[tuple[int, ...]] = []
    for vector in sorted(first, key=sum):  # what undercuts a vector has the smaller sum
        if not any(_undercuts(other, vector) for other in kept):
            kept.append(vector)
    return sorted([first[vector] for vector in kept])


def _undercuts(other: Iterable[int], vector: Iterable[int]) -> bool:
    return all(a <= b for a, b in zip(other, vector, strict=True))


def _undominated_arrays(first: dict[tuple[int, ...], int]) -> list[int]:
    import numpy as np

    order = sorted(first, key=sum)
    rows = np.array(order, dtype=np.int64)  # [vector, figure]
    kept = np.empty_like(rows)
    found, number = [], 0
    for vector, row in zip(order, rows, strict=True):
        if not (kept[:number] <= row).all(axis=1).any():
            kept[number] = row
            number += 1
            found.append(first[vector])
    return sorted(found)
