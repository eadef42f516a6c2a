"""A good combination of candidates: movers raised one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from kvplan.kernels.exchange.arrays import (
    Exchange,
    Flags,
    Found,
    last_that_fits,
    rest_of,
)

_MOST_ORDERS = 6


def greedy(exchange: Exchange) -> Found | None:
    """Movers raised one after the other, in the best of some orders."""
    movers = exchange.movers
    first = _least(exchange)
    if first is None:
        return None
    best: Found | None = None
    for number, order in enumerate(permutations(range(len(movers)))):
        if number == _MOST_ORDERS:
            break
        picks = [*first]
        for index in order:
            raise_mover(exchange, picks, index)
        worth = sum(int(m.worth[k]) for m, k in zip(movers, picks, strict=True))
        if best is None or worth > best.worth:
            best = Found(worth, (tuple(picks),))
    return best


def _least(exchange: Exchange) -> list[int] | None:
    """A first combination that fits; None if there is none."""
    picks = [0] * len(exchange.movers)
    for index, mover in enumerate(exchange.movers):
        if not mover.rises:
            fits = _fits_with_needs(exchange, picks, index)
            if not fits.any():
                return None
            _pick(exchange, picks, index, int(fits.argmax()))
    return picks if (rest_of(exchange, picks) >= 0).all() else None


def raise_mover(exchange: Exchange, picks: list[int], index: int) -> None:
    """Put a mover at its largest candidate beside the others, in place."""
    mover = exchange.movers[index]
    if mover.rises:
        rest = rest_of(exchange, picks) + mover.costs[:, picks[index]]
        picks[index] = max(picks[index], int(last_that_fits(mover, rest[:, None])[0]))
    else:
        fits = _fits_with_needs(exchange, picks, index)
        _pick(exchange, picks, index, int(np.flatnonzero(fits)[-1]))


def _fits_with_needs(exchange: Exchange, picks: Sequence[int], index: int) -> Flags:
    """Candidates of a fitted variable that fit, the pools raised to what each asks for."""
    mover = exchange.movers[index]
    used = mover.costs - mover.costs[:, picks[index], None]
    rest = rest_of(exchange, picks)
    fits = np.ones(len(mover.values), dtype=bool)
    for other, first in exchange.asks[index]:
        pool = exchange.movers[other]
        fits &= first < len(pool.values)
        held = np.minimum(np.maximum(first, picks[other]), len(pool.values) - 1)
        used = used + pool.costs[:, held] - pool.costs[:, picks[other], None]
    return fits & (used <= rest[:, None]).all(axis=0)


def _pick(exchange: Exchange, picks: list[int], index: int, candidate: int) -> None:
    picks[index] = candidate
    for other, first in exchange.asks[index]:
        picks[other] = max(picks[other], int(first[candidate]))
