"""What everything but one variable needs, so that the variable can move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from kvplan.kernels.evaluate import Evaluator
from kvplan.kernels.moving import Moving
from kvplan.kernels.need import NeedTerm
from kvplan.kernels.search.bounds import Bounds
from kvplan.kernels.search.undecided import PRUNE_FROM, Needed, Undecided, undominated

Usable = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Usable blocks by pool, and the (variable request, value) pairs that need them."""

_MOST_KEPT = 512


class Others:
    """Least needs beside one variable, as objects along which it moves."""

    def __init__(self, demand: Evaluator, undecided: Undecided) -> None:
        self.demand, self._undecided = demand, undecided
        self._kept: dict[tuple[object, ...], Moving] = {}

    def usable(self, bounds: Bounds, without: int | None = None) -> list[Usable]:
        """Least usable blocks of all batches (but one), their copies and blocks bounds included."""
        instance = self.demand.instance
        floors = list(self.demand.still_floors(bounds.chunk))
        for batch, copies in enumerate(bounds.copies if any(bounds.copies) else ()):
            if copies > 1 and batch != without and not instance.batches[batch].fitted:
                raw = self.demand.given(batch, bounds.chunk)
                self.demand.raise_floors(floors, [copies * held for held in raw])
        for pool, least in enumerate(bounds.blocks if any(bounds.blocks) else ()):
            if least > floors[pool]:
                floors[pool] = least
        for pool, per_copy in enumerate(self.demand.mix(bounds.chunk) if bounds.scale else ()):
            floors[pool] = max(floors[pool], ceil(bounds.scale * per_copy))
        found: list[Usable] = [(tuple(floors), ())]
        if self.demand.contexts:
            found = [((*floors, *self._tokens(())), ())]
        for batch in self.demand.fitted_batches:
            if batch != without:
                found = self._with_batch(found, batch, bounds)
        return [(tuple(self.demand.legal(list(usable))), at) for usable, at in found]

    def _with_batch(self, found: list[Usable], batch: int, bounds: Bounds) -> list[Usable]:
        """The larger of what one more batch and those before it need."""
        copies = max(1, bounds.copies[batch])
        mine = []
        for needed in self._undecided.of_batch(batch, bounds):
            floors = [0] * len(needed.raw)
            raw = self._undecided.whole(batch, needed)
            self.demand.raise_floors(floors, [copies * held for held in raw])
            if self.demand.contexts:
                floors += self._tokens(needed.at)
            mine.append((floors, needed.at))
        both = [
            (tuple(map(max, usable, floors)), (*at, *also))
            for usable, at in found
            for floors, also in mine
        ]
        return least_usable(both)

    def _tokens(self, at: Sequence[tuple[int, int]]) -> list[int]:
        """Tokens by context, of the requests among some values; 0 for others."""
        values = dict(at)
        return [values.get(fitted, 0) for fitted in self.demand.contexts]

    # --- one variable --------------------------------------------------------------------------

    def of_capacity(self, bounds: Bounds, index: int) -> list[Moving]:
        """A variable capacity beside every least need of the others."""
        request = self.demand.instance.fitted[index]
        batch, chunk = request.batch, bounds.chunk if self.demand.uses_chunk else 0
        copies = max(1, bounds.copies[batch])
        found, beside = [], self.usable(bounds, without=batch)
        for needed in self._undecided.of_batch(batch, bounds, without=index):
            for usable, _ in beside:
                key: tuple[object, ...] = (index, chunk, copies, needed.raw, needed.stale, usable)
                if self.demand.contexts:
                    key = (*key, *self._tokens(needed.at))
                moving = self._kept.get(key)
                if moving is None:
                    moving = self._capacity(index, bounds.chunk, copies, needed, usable)
                    self._keep(key, moving)
                found.append(moving)
        return found

    def of_count(self, bounds: Bounds, index: int) -> list[Moving]:
        """A variable count beside every least need of the others."""
        request = self.demand.instance.fitted[index]
        batch, chunk = request.batch, bounds.chunk
        copies = max(1, bounds.copies[batch])
        own = self.demand.own(index, request.capacity, chunk)
        step = [NeedTerm(p, copies * held, 1) for p, held in enumerate(own) if held]
        beside = self.usable(bounds, without=batch)
        return [
            self._moving(
                [copies * held for held in self._undecided.whole(batch, needed)],
                step,
                usable,
                needed,
                chunk,
            )
            for needed in self._undecided.of_batch(batch, bounds, without=index)
            for usable, _ in beside
        ]

    def of_copies(self, bounds: Bounds, batch: int) -> list[Moving]:
        """Copies of a batch beside every least need of the other batches."""
        found, beside = [], self.usable(bounds, without=batch)
        for needed in self._undecided.of_batch(batch, bounds):
            raw = self._undecided.whole(batch, needed)
            step = [NeedTerm(p, held, 1) for p, held in enumerate(raw) if held]
            for usable, _ in beside:
                found.append(self._moving([0] * len(raw), step, usable, needed, bounds.chunk))
        return found

    def _keep(self, key: tuple[object, ...], moving: Moving) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = moving

    def _capacity(
        self, index: int, chunk: int, copies: int, needed: Needed, usable: tuple[int, ...]
    ) -> Moving:
        """Terms of the capacity's own needs, times its requests, and of the prefix it shares."""
        request = self.demand.instance.fitted[index]
        base = [copies * held for held in needed.raw]
        times = request.requests * copies
        step = [*self.demand.terms_of(index, chunk)] if times else []
        if times > 1:
            step = [term._replace(groups=term.groups * times) for term in step]
        for term, stale in zip(self.demand.couplings[request.batch], needed.stale, strict=True):
            shared = term._replace(groups=term.groups * copies, stale_most=stale)
            if request.requests:
                step.append(shared)
            else:
                base[term.pool] += shared.groups * (term.extra - stale)
        if index in self.demand.contexts:
            slot = len(base) + self.demand.contexts.index(index)
            step.append(NeedTerm(slot, 1, 1))
        return self._moving(base, step, usable, needed, chunk, request.flight)

    def _moving(
        self,
        base: list[int],
        step: Iterable[NeedTerm],
        usable: tuple[int, ...],
        needed: Needed,
        chunk: int,
        flight: int = 0,
    ) -> Moving:
        """Pools without a step stand still at the larger of both needs; so do other contexts."""
        by_pool: dict[int, list[NeedTerm]] = {}
        for term in step:
            if _stands_still(term):
                base[term.pool] += term.groups * term.extra
            else:
                by_pool.setdefault(term.pool, []).append(term)
        still = list(usable)
        self.demand.raise_floors(still, base)
        still = self.demand.legal(still)
        if self.demand.contexts:
            tokens = self._tokens(needed.at)
            still[len(base) :] = map(max, still[len(base) :], tokens)
            base = [*base, *[0 for _ in tokens]]
        pools = [(pool, base[pool], terms, usable[pool]) for pool, terms in by_pool.items()]
        return Moving(self.demand, pools, still, flight, chunk)


def least_usable(found: list[Usable]) -> list[Usable]:
    """Without the usable blocks that others undercut; of equal ones the first."""
    if len(found) < PRUNE_FROM:
        return found
    return [found[place] for place in undominated([usable for usable, _ in found])]


def _stands_still(term: NeedTerm) -> bool:
    """Whether a term is a constant: state blocks, or a prefix of which nothing goes stale."""
    return term.most == 0 and not (term.stale_from is not None and term.stale_most)
