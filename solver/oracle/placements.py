"""Placements by enumeration: every cut of the slots, every space of every expert tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

PICOSECOND = Fraction(1, 10**12)

Layer = tuple[int, int, int, Sequence[tuple[int, Sequence[int]]], bool]
"""Bytes in load, bytes else, bytes read, expert tensors (bytes, reads), whether it is a layer."""
Memory = tuple[Any, int, int, int, int]
"""Name, room, room in load, base once in use, bytes a second (0: unknown)."""


def best_cost(
    layers: Sequence[Layer],
    memories: Sequence[Memory],
    host: int | None,
    reach: str,
    objectives: Sequence[str],
    *,
    hop: int = 0,
    mirror: bool = False,
) -> tuple[int | Fraction, ...] | None:
    """The least costs in order, the count of spaces last, over all placements; None: none fits.

    Time is in seconds, exact.
    """
    costs = []
    for cuts in combinations_with_replacement(range(len(layers) + 1), len(memories) - 1):
        where = [
            at for at, (i, j) in enumerate(pairwise((0, *cuts, len(layers)))) for _ in range(j - i)
        ]
        homes = [_homes(at, len(memories), host, reach) for at in where]
        tensors = [slot for slot, layer in enumerate(layers) for _ in layer[3]]
        for spread in product(*(homes[slot] for slot in tensors)):
            queue = list(spread)
            experts = [[queue.pop(0) for _ in layer[3]] for layer in layers]
            if _fits(layers, memories, host, where, experts, mirror=mirror):
                costs.append(_cost(layers, memories, host, where, experts, objectives, hop))
    return min(costs, default=None)


def _homes(own: int, count: int, host: int | None, reach: str) -> list[int]:
    """Spaces where the experts of a layer may lie."""
    if own == host:
        return [own]
    cards = [at for at in range(count) if at != host]
    if reach == "own":
        cards = [own]
    elif reach == "next":
        cards = [at for at in cards if at >= own][:2]
    return cards if host is None else [host, *cards]


def _contents(
    layers: Sequence[Layer], where: Sequence[int], experts: Sequence[Sequence[int]], at: int
) -> Iterator[tuple[int, int]]:
    """What lies in a space: (bytes in load, bytes else)."""
    for layer, own, homes in zip(layers, where, experts, strict=True):
        if own == at:
            yield layer[0], layer[1]
        for (size, _), home in zip(layer[3], homes, strict=True):
            if home == at:
                yield size, size


def _fits(
    layers: Sequence[Layer],
    memories: Sequence[Memory],
    host: int | None,
    where: Sequence[int],
    experts: Sequence[Sequence[int]],
    *,
    mirror: bool,
) -> bool:
    for at, (_, room, load_room, base, _) in enumerate(memories):
        things = list(_contents(layers, where, experts, at))
        if mirror and at == host:
            copies = zip(layers, experts, strict=True)
            things += [
                (size, size)
                for layer, homes in copies
                for (size, _), home in zip(layer[3], homes, strict=True)
                if home != host
            ]
        taken = base if at in where or any(at in homes for homes in experts) else 0
        if sum(load for load, _ in things) + taken > load_room:
            return False
        if sum(held for _, held in things) + taken > room:
            return False
    return True


def _cost(
    layers: Sequence[Layer],
    memories: Sequence[Memory],
    host: int | None,
    where: Sequence[int],
    experts: Sequence[Sequence[int]],
    objectives: Sequence[str],
    hop: int,
) -> tuple[int | Fraction, ...]:
    costs = dict.fromkeys(("layers_on_gpu", "experts_on_gpu", "speed"), Fraction(0))
    for layer, own, homes in zip(layers, where, experts, strict=True):
        costs["layers_on_gpu"] += own == host and layer[4]
        costs["experts_on_gpu"] += sum(home == host for home in homes)
        costs["speed"] += _time(layer[2], memories[own][4])
        for (_, reads), home in zip(layer[3], homes, strict=True):
            costs["speed"] += sum(_time(read, memories[home][4]) for read in reads)
        costs["speed"] += 2 * hop * PICOSECOND * any(home != own for home in homes)
    spaces = len(set(where))
    costs["speed"] += hop * PICOSECOND * (spaces - 1)
    return (*(costs[name] for name in objectives), spaces)


def _time(count: int, rate: int) -> Fraction:
    return Fraction(count, rate) if rate else Fraction(0)
