"""What of a slice's experts a card keeps, in what the dense parts leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from kvplan.solver.place.search.clock import Clock
from kvplan.solver.place.search.spread import Spread, Tensor


class Kept(NamedTuple):
    """Experts kept of every slice [i, j) on one card.

    Attributes
    ----------
    counts, bytes, gains : tensors kept, their bytes, and ticks saved against the host;
        arrays [start, end].
    is_exact : no other choice saves more.
    """

    spread: Spread
    at: int
    room: Any  # bytes [start, end]
    counts: Any
    bytes: Any
    gains: Any
    is_exact: bool

    def chosen(self, start: int, end: int) -> Mapping[Tensor, int]:
        """Tensors kept of one slice, by kind."""
        slots = self.spread.slots[start:end]
        tensors = Counter(tensor for slot in slots for tensor in slot.experts)
        room = int(self.room[start, end])
        if len(tensors) < 2:
            counts, held = int(self.counts[start, end]), int(self.bytes[start, end])
            return {kind: held // kind.bytes if kind.bytes else counts for kind in tensors}
        return _largest_subset(tensors, room)


def kept_in_slices(spread: Spread, clock: Clock, at: int, room: Any, dtype: Any) -> Kept:
    """Fill each slice: alike tensors by number, others by the largest sum of bytes that fits.

    Parameters
    ----------
    room : bytes that a slice leaves, [start, end].
    """
    kinds = list(dict.fromkeys(tensor for slot in spread.slots for tensor in slot.experts))
    if len(kinds) > 1:
        return _kept_of_several(spread, clock, at, room, dtype)
    counts = np.zeros_like(room)
    if kinds:
        (kind,) = kinds
        sums = np.array([0, *np.cumsum([len(slot.experts) for slot in spread.slots])], dtype=dtype)
        counts = np.minimum(sums[None, :] - sums[:, None], room // max(kind.bytes, 1))
        counts = np.maximum(counts, 0) * _is_worth(spread, clock, at, kind)
    gain = _gain(spread, clock, at, kinds[0]) if kinds else 0
    size = kinds[0].bytes if kinds else 0
    return Kept(spread, at, room, counts, counts * size, counts * gain, is_exact=True)


def _gain(spread: Spread, clock: Clock, at: int, tensor: Tensor) -> int:
    """Ticks that a card saves against the host."""
    if spread.host is None:
        return 0
    return clock.of_tensor(spread.host, tensor) - clock.of_tensor(at, tensor)


def _is_worth(spread: Spread, clock: Clock, at: int, tensor: Tensor) -> bool:
    """Whether keeping a tensor helps the first objective that it touches."""
    for objective in spread.objectives:
        if objective == "experts_on_gpu":
            return True
        if objective == "speed" and _gain(spread, clock, at, tensor):
            return _gain(spread, clock, at, tensor) > 0
    return True


def _kept_of_several(spread: Spread, clock: Clock, at: int, room: Any, dtype: Any) -> Kept:
    """The largest sum of bytes, by a bit set over units of bytes that grows slot by slot."""
    slots, size = spread.slots, len(spread.slots) + 1
    unit = _unit((t.bytes for slot in slots for t in slot.experts), int(room.max()))
    reads = sum(sum(t.reads) for slot in slots for t in slot.experts)
    whole = sum(t.bytes for slot in slots for t in slot.experts)
    most = int(room.max()) // unit
    counts, gains, kept = (np.zeros((size, size), dtype=dtype) for _ in range(3))
    rate_gain = _gain(spread, clock, at, Tensor(whole, (reads,)))
    every = [len(slot.experts) for slot in slots]
    mean = max(1, whole // max(1, sum(every)))
    for start in range(size - 1):
        sums, tensors, mask = 1, 0, (1 << most + 1) - 1
        for end in range(start + 1, size):
            for tensor in slots[end - 1].experts:
                sums |= sums << -(-tensor.bytes // unit) & mask
            tensors += every[end - 1]
            left = int(room[start, end]) // unit
            held = ((sums & ((1 << left + 1) - 1)).bit_length() - 1) * unit if left > 0 else 0
            gains[start, end] = rate_gain * held // whole
            counts[start, end], kept[start, end] = min(tensors, held // mean), held
    exact = unit == gcd(*(t.bytes for slot in slots for t in slot.experts)) and rate_gain >= 0
    exact = exact and _is_by_bytes(spread, clock)
    return Kept(spread, at, room, counts, kept, gains, is_exact=exact)


def _is_by_bytes(spread: Spread, clock: Clock) -> bool:
    """Whether time alone is asked for, and a token reads the same share of every tensor.

    The most bytes then save the most time, to the tick.
    """
    tensors = {tensor for slot in spread.slots for tensor in slot.experts}
    one = next(iter(tensors))
    alike = all(t.bytes * sum(one.reads) == one.bytes * sum(t.reads) for t in tensors)
    return spread.host is not None and alike and clock.is_exact and spread.objectives == ("speed",)


def _largest_subset(tensors: Mapping[Tensor, int], room: int) -> dict[Tensor, int]:
    """Counts by kind whose bytes come as close to the room as any."""
    room = min(max(0, room), sum(t.bytes * number for t, number in tensors.items()))
    unit = _unit((tensor.bytes for tensor in tensors), room)
    left, sums, steps = room // unit, 1, list[tuple[Tensor, int]]()
    mask = (1 << left + 1) - 1
    for tensor, number in tensors.items():
        for _ in range(number):
            steps.append((tensor, sums))
            sums |= sums << -(-tensor.bytes // unit) & mask
    at, found = sums.bit_length() - 1, dict.fromkeys(tensors, 0)
    for tensor, before in reversed(steps):
        if not before >> at & 1:
            found[tensor] += 1
            at -= -(-tensor.bytes // unit)
    return found


def _unit(sizes: Iterable[int], room: int) -> int:
    """Bytes of a bit: the sizes' common divisor, but no more than 2^16 bits; then rounded up."""
    return max(gcd(*sizes), room >> 16, 1)
