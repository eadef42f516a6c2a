"""The variables of a weighted goal as arrays over their candidates.

A candidate is a value after which some row's bytes rise: a smaller value that takes the same is
never better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvplan.kernels.instance import ObjectiveTerm

MOST_CANDIDATES = 1 << 17
SAFE = 1 << 30  # tokens, counts and block sizes in tokens: no product of two leaves int64
SAFE_BYTES = 1 << 56
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Asks = tuple[tuple[int, Integers], ...]
"""(other mover, [candidate] index of its first one that holds what is asked for)."""


class UnsuitedError(Exception):
    """A goal or its figures are not of the form that arrays take."""


class TooManyError(Exception):
    """More candidates or combinations than can be compared at once."""


class Mover(NamedTuple):
    """A variable of the goal."""

    term: ObjectiveTerm
    values: Integers  # [candidate], rising
    costs: Integers  # [row, candidate] bytes
    worth: Integers  # [candidate], scaled
    needs: Mapping[int, Integers]  # by pool that moves too: [candidate] usable blocks it asks for
    rises: bool = False  # no candidate takes less than a smaller one


class Exchange(NamedTuple):
    """Movers against the room that everything else leaves."""

    movers: tuple[Mover, ...]
    room: Integers  # [row]
    asks: tuple[Asks, ...]  # by mover


def exchange_between(movers: tuple[Mover, ...], room: Integers) -> Exchange:
    """Movers, their room, and what they ask of each other."""
    return Exchange(movers, room, tuple(_asks(movers, mover) for mover in movers))


def _asks(movers: tuple[Mover, ...], asking: Mover) -> Asks:
    asked = []
    for other, mover in enumerate(movers):
        needs = asking.needs.get(mover.term.variable.position)
        if mover.term.variable.kind == "blocks" and needs is not None:
            asked.append((other, np.searchsorted(mover.values, needs)))
    return tuple(asked)


class Found(NamedTuple):
    """The best sum of worths, and the index of every mover's candidate in each combination."""

    worth: int
    picks: tuple[tuple[int, ...], ...]


def within(top: int, low: int) -> int:
    """`top`, where arrays can hold every value from `low` on."""
    if top - low >= MOST_CANDIDATES:
        raise UnsuitedError
    return top


def rest_of(exchange: Exchange, picks: Sequence[int]) -> Integers:
    """Bytes that a combination leaves in every row."""
    rest = exchange.room.copy()
    for mover, pick in zip(exchange.movers, picks, strict=True):
        rest -= mover.costs[:, pick]
    return rest


def last_that_fits(mover: Mover, rest: Integers) -> Integers:
    """Largest candidate within every row's rest [row, combination]; -1 if none is."""
    last = np.full(rest.shape[1], len(mover.values) - 1, dtype=np.int64)
    for costs, left in zip(mover.costs, rest, strict=True):
        if costs[-1]:
            last = np.minimum(last, np.searchsorted(costs, left, side="right") - 1)
        else:
            last[left < 0] = -1
    return last


def narrowed(mover: Mover, kept: Integers) -> Mover:
    """A mover with some of its candidates."""
    return mover._replace(
        values=mover.values[kept],
        costs=mover.costs[:, kept],
        worth=mover.worth[kept],
        needs={pool: blocks[kept] for pool, blocks in mover.needs.items()},
    )
