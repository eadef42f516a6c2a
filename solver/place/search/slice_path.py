"""The cheapest path over spaces and the first slot behind each slice; costs bound, then exact.

Dense parts and caches leave a room, which experts fill: a knapsack for every slice [i, j) on every
space. All of them are bounded at once by the fractional choice; few are ever solved.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from kvplan.solver.place.search.expert_kinds import ExpertKinds, total
from kvplan.solver.place.search.slice_gains import Chosen, Gains
from kvplan.solver.place.search.spread import Spread, Tensor

WIDEST = 2**61


class Path:
    """Sums over slots, and the packed cost of every slice [i, j) on every space.

    `lows[at]` are bounds from below, exact where `exact[at]` says so; `refine` makes one exact.
    """

    def __init__(self, spread: Spread, *, spares_host: bool = False) -> None:
        self.spread, slots, self.spares_host = spread, spread.slots, spares_host
        self.count = len(slots)
        self.held = _sums(slot.held for slot in slots)
        self.fixed = _sums(slot.fixed for slot in slots)
        self.layers = _sums(slot.is_layer for slot in slots)
        self.kinds = ExpertKinds(slots)
        self.tensors = _sums(len(slot.experts) for slot in slots)
        self.mixtures = _sums(bool(slot.experts) for slot in slots)
        self.bytes = _sums(self.kinds.by_slot(lambda counted: total(counted, lambda t: t.bytes)))
        self.dtype: Any = np.int64
        self.clock = spread.clock()
        self.weights = self._weights()
        self.gains = [self._gains(at) for at in range(len(spread.spaces))]
        self.chosen: dict[tuple[int, int, int], Chosen] = {}
        self.rooms: list[Any] = []
        self.fallen: list[Any] = []  # cost of a slice without what experts gain
        self.lows, self.exact = list[Any](), list[Any]()
        for at in range(len(spread.spaces)):
            self._cost(at)

    def _weights(self) -> dict[str, int]:
        """Factors that pack the objectives, in order, and the count of spaces in one integer."""
        spread = self.spread
        clock, places = self.clock, range(len(spread.spaces))
        time = sum(max(clock.of(at, s.read) for at in places) for s in spread.slots)
        slowest = partial(total, worth=lambda t: max(clock.of_tensor(at, t) for at in places))
        time += sum(self.kinds.by_slot(slowest))
        ranges = {
            "layers_on_gpu": self.layers[-1] + 1,
            "experts_on_gpu": self.tensors[-1] + 1,
            "speed": time + clock.hop * (len(spread.spaces) + 2 * self.mixtures[-1]) + 1,
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
        """The objectives as one integer."""
        weights = self.weights
        if self.spares_host:
            return held
        parts = (("layers_on_gpu", layers), ("experts_on_gpu", experts), ("speed", time))
        return sum(weights[name] * part for name, part in parts if name in weights)

    def _gains(self, at: int) -> Gains:
        """What experts gain on a space against the host; nothing where there is none."""
        host = self.spread.host
        if host is None or at == host:
            return Gains(self.kinds, lambda _: 0, 0)

        def gain_of(tensor: Tensor) -> int:
            away = self.clock.of_tensor(host, tensor) - self.clock.of_tensor(at, tensor)
            return int(self.packed(0, 1, away, tensor.bytes))

        return Gains(self.kinds, gain_of, int(self.packed(0, 0, 2 * self.clock.hop, 0)))

    def _cost(self, at: int) -> None:
        """Bound of the packed cost of each slice on a space; far where a slice does not fit."""
        spread, space = self.spread, self.spread.spaces[at]
        free = space.room - space.base - self.differences(self.held)
        loaded = space.load_room - space.base - self.differences(self.fixed)
        room = np.minimum(free, loaded)
        own, home = at == spread.host, at if spread.host is None else spread.host
        reads = self.differences(_sums(self.clock.of(at, s.read) for s in spread.slots))
        ticks = partial(total, worth=partial(self.clock.of_tensor, home))
        off = self.differences(_sums(self.kinds.by_slot(ticks)))
        every = self.differences(self.bytes)
        if spread.host is None or (own and spread.mirror):
            room = room - every
        layers = self.differences(self.layers) * own
        apart = 0 if own or spread.host is None else self.differences(self.mixtures)
        time = reads + off + self.clock.hop * (1 + 2 * apart)
        held = every + (self.differences(self.held) if own else 0)
        off_card = self.differences(self.tensors) * (spread.host is not None)
        cost = self.packed(layers, off_card, time, held) + (not self.spares_host)
        fits = room >= 0
        room = np.where(fits, room, 0)
        gain, exact = self.gains[at].bounds(room, self.dtype)
        self.rooms.append(room)
        self.fallen.append(cost)
        upper = np.arange(self.count + 1)
        fits = fits & (upper[:, None] < upper[None, :])
        self.lows.append(np.where(fits, cost - gain, self.far))
        self.exact.append(exact)

    @property
    def far(self) -> int:
        """The cost of what does not fit."""
        return WIDEST if self.dtype is np.int64 else 2**400

    def choice(self, at: int, start: int, end: int) -> Chosen:
        """Experts kept of one slice."""
        key = (at, start, end)
        if key not in self.chosen:
            self.chosen[key] = self.gains[at].choice(start, end, int(self.rooms[at][start, end]))
        return self.chosen[key]

    def refine(self, at: int, start: int, end: int) -> bool:
        """Replace the bound of a slice by its cost; false where even that is a bound."""
        found = self.choice(at, start, end)
        self.lows[at][start, end] = self.fallen[at][start, end] - found.bound
        self.exact[at][start, end] = True
        return found.bound == found.gain

    def ends(self) -> tuple[int, ...] | None:
        """The cheapest path by the bounds; None where dense parts do not fit.

        Of equal ones, late spaces take as many slots as they can.
        """
        best = np.full(self.count + 1, self.far, dtype=self.dtype)
        best[0], steps, empty = 0, [], np.arange(self.count + 1)
        for lows in self.lows:
            through = np.minimum(best[:, None] + lows, self.far)
            through[empty, empty] = best
            step = through.argmin(axis=0)
            steps.append(step)
            best = through[step, empty]
        if best[-1] >= self.far:
            return None
        found, end = list[int](), self.count
        for step in reversed(steps):
            found.insert(0, end)
            end = int(step[end])
        return tuple(found)

    def slices(self, ends: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """Space, start and end of each slice that holds a slot."""
        cuts = enumerate(zip((0, *ends), ends, strict=False))
        return [(at, start, end) for at, (start, end) in cuts if end > start]


def _sums(values: Iterable[int]) -> list[int]:
    return [0, *accumulate(values)]
