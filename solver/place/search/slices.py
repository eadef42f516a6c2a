"""The search: a shortest path over spaces and the first slot behind each slice.

The cost of a slice on a space is closed: what dense parts and caches leave is filled with expert
tensors. Exact where a token reads the same share of every expert tensor and the host has room;
elsewhere a start for CP-SAT.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np

from kvplan.solver.place.kept import Kept, kept_in_slices
from kvplan.solver.place.search.clock import Clock
from kvplan.solver.place.search.over_cards import best_over_cards
from kvplan.solver.place.search.spread import Spread, Spreading, measure, short_by

WIDEST = 2**62


class Found(NamedTuple):
    """An answer and whether the path proves it; no answer may be a proof, too."""

    answer: Spreading | None
    is_proof: bool


class _Path:
    """Sums over slots, and the packed cost of every slice [i, j) on every space."""

    def __init__(self, spread: Spread, *, spares_host: bool = False) -> None:
        self.spread, slots, self.spares_host = spread, spread.slots, spares_host
        self.kept: list[Kept | None] = []
        self.count = len(slots)
        self.held = _sums(slot.held for slot in slots)
        self.fixed = _sums(slot.fixed for slot in slots)
        self.layers = _sums(slot.is_layer for slot in slots)
        self.tensors = _sums(len(slot.experts) for slot in slots)
        self.bytes = _sums(sum(t.bytes for t in slot.experts) for slot in slots)
        self.dtype: Any = np.int64
        self.clock = spread.clock()
        self.weights = self._weights()

    def _weights(self) -> dict[str, int]:
        """Factors that pack the objectives, in order, and the count of spaces in one integer."""
        spread = self.spread
        clock, places = self.clock, range(len(spread.spaces))
        time = sum(max(clock.of(at, s.read) for at in places) for s in spread.slots)
        tensors = (tensor for slot in spread.slots for tensor in slot.experts)
        time += sum(max(clock.of_tensor(at, t) for at in places) for t in tensors)
        ranges = {
            "layers_on_gpu": self.layers[-1] + 1,
            "experts_on_gpu": self.tensors[-1] + 1,
            "speed": time + 1,
            "spaces": len(spread.spaces) + 1,
        }
        ranges["host_bytes"] = self.held[-1] + self.bytes[-1] + 1
        names = ["host_bytes"] if self.spares_host else [*spread.objectives, "spaces"]
        if prod(ranges[name] for name in names) >= WIDEST or self.held[-1] >= WIDEST:
            self.dtype = object
        sizes = [ranges[name] for name in names]
        return {name: prod(sizes[at + 1 :]) for at, name in enumerate(names)}

    def differences(self, sums: list[int]) -> Any:
        """Sum over [i, j) by i and j."""
        column = np.array(sums, dtype=self.dtype)
        return column[None, :] - column[:, None]  # [start, end]

    def packed(self, layers: Any, experts: Any, time: Any, held: Any) -> Any:
        """The objectives as one integer; a slice uses one space."""
        weights = self.weights
        if self.spares_host:
            return held
        parts = (("layers_on_gpu", layers), ("experts_on_gpu", experts), ("speed", time))
        return sum(weights[name] * part for name, part in parts if name in weights) + 1

    def costs(self, at: int) -> tuple[Any, Any]:
        """Packed cost of each slice on a space, and which slices fit."""
        spread, space = self.spread, self.spread.spaces[at]
        free = space.room - space.base - self.differences(self.held)
        loaded = space.load_room - space.base - self.differences(self.fixed)
        fits = (free >= 0) & (loaded >= 0)
        reads = self.differences(_sums(self.clock.of(at, s.read) for s in spread.slots))
        every = self.differences(self.tensors)
        home = spread.host if spread.host is not None else at
        off = self.differences(_sums(_reads_on(spread, self.clock, home)))
        if at == spread.host:
            self.kept.append(None)
            taken = self.differences(self.held) + self.differences(self.bytes)
            return self.packed(self.differences(self.layers), every, reads + off, taken), fits
        room = np.minimum(free, loaded)
        wanted = spread
        if self.spares_host:
            wanted = spread._replace(objectives=("experts_on_gpu",))
        kept = kept_in_slices(wanted, self.clock, at, np.where(fits, room, 0), self.dtype)
        self.kept.append(kept)
        if spread.host is None:
            fits = fits & (kept.counts >= every)
        taken = self.differences(self.bytes) - kept.bytes
        return self.packed(0, every - kept.counts, reads + off - kept.gains, taken), fits


def _sums(values: Iterable[int]) -> list[int]:
    return [0, *accumulate(values)]


def _reads_on(spread: Spread, clock: Clock, at: int) -> list[int]:
    """Ticks of each slot's experts on one space."""
    return [sum(clock.of_tensor(at, t) for t in slot.experts) for slot in spread.slots]


def shortest(spread: Spread) -> Found:
    """The cheapest path that fits; where the host is short, the one that asks least of it."""
    over_cards = best_over_cards(spread)
    if over_cards is not None:
        return Found(over_cards, is_proof=True)
    found = _walked(_Path(spread))
    if found.answer is None and spread.host is not None and not found.is_proof:
        spared = _walked(_Path(spread, spares_host=True))
        return spared._replace(is_proof=spared.answer is None and _needs_host(spread))
    return found


def _needs_host(spread: Spread) -> bool:
    """Whether nothing asks less of the host than the path that spares it."""
    assert spread.host is not None
    kinds = {tensor for slot in spread.slots for tensor in slot.experts}
    host = spread.spaces[spread.host]
    plain = not spread.mirror and not host.base and host.load_room >= host.room
    return spread.reach == "own" and len(kinds) < 2 and plain


def _walked(path: _Path) -> Found:
    """The cheapest path; of equal ones, late spaces take as many slots as they can.

    No answer is a proof where not even dense parts fit.
    """
    spread = path.spread
    far = WIDEST if path.dtype is np.int64 else 2**400
    best = np.full(path.count + 1, far, dtype=path.dtype)
    best[0] = 0
    steps = []
    for at in range(len(spread.spaces)):
        costs, fits = path.costs(at)
        empty = np.arange(path.count + 1)
        upper = empty[:, None] < empty[None, :]
        reached = best[:, None] < far
        through = np.where(upper & fits & reached, best[:, None] + costs, far)
        through[empty, empty] = best
        step = through.argmin(axis=0)
        steps.append(step)
        best = through[step, empty]
    if best[-1] >= far:
        return Found(None, is_proof=spread.host is not None or _is_closed(path))
    ends, end = list[int](), path.count
    for step in reversed(steps):
        ends.insert(0, end)
        end = int(step[end])
    answer = Spreading(tuple(ends), _filled(path, ends))
    fits_all = not any(short_by(spread, measure(spread, answer)))
    return Found(answer if fits_all else None, is_proof=fits_all and _is_closed(path))


def _is_closed(path: _Path) -> bool:
    """Whether every slice's cost is exact, and nothing beside it is bound."""
    spread = path.spread
    closed = all(kept is None or kept.is_exact for kept in path.kept)
    return closed and spread.reach == "own" and not spread.hop


def _filled(path: _Path, ends: list[int]) -> tuple[tuple[int, ...], ...]:
    """Space of each expert tensor: early layers of a slice keep theirs (ik_llama.cpp #2262)."""
    spread, found, start = path.spread, [], 0
    for at, end in enumerate(ends):
        kept = path.kept[at]
        off = spread.host if spread.host is not None else at
        left = {} if kept is None else dict(kept.chosen(start, end))
        for slot in spread.slots[start:end]:
            lies = []
            for tensor in slot.experts:
                stays = left.get(tensor, 0) > 0
                lies.append(at if stays else off)
                left[tensor] = left.get(tensor, 0) - stays
            found.append(tuple(lies))
        start = end
    return tuple(found)
