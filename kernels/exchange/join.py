"""The best combinations of candidates that fit the room, all of them.

Only combinations whose regrets sum to no more than the bound less the best sum known can be
optimal. They are joined mover by mover; the last mover takes what fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np

from kvplan.kernels.exchange.arrays import (
    Exchange,
    Found,
    Integers,
    TooManyError,
    last_that_fits,
    narrowed,
    rest_of,
)
from kvplan.kernels.exchange.greedy import greedy, raise_mover
from kvplan.kernels.exchange.price import Price, priced

MOST_PAIRS = 1 << 17
MOST_IMPROVED = 1 << 14  # candidates; with more, looking for a better sum takes too long
FEW_PAIRS = 1 << 11  # as soon compared as a better sum is found
MOST_WINNERS = 1 << 10


def best_combinations(exchange: Exchange, need: int | None) -> Found | None:
    """Every best combination; None where nothing fits or nothing reaches `need`.

    Raises
    ------
    TooManyError : too many combinations are left to compare.
    UnsuitedError : worths leave the range of 64-bit integers.
    """
    start = greedy(exchange)
    if start is None:
        return None
    prices = priced(exchange, start.picks[0])
    best = start.worth if need is None else max(start.worth, need)
    left = _pairs_left(prices[0], best)
    if left > MOST_PAIRS and sum(len(mover.values) for mover in exchange.movers) > MOST_IMPROVED:
        raise TooManyError
    if left > FEW_PAIRS:
        best = max(best, _improved(exchange, prices, start).worth)
    return _joined(exchange, prices[0], best, range(len(exchange.movers)), start.picks[0])


def _pairs_left(price: Price, best: int) -> int:
    """Combinations of the candidates that may be in an optimum, the longest list apart."""
    gap = price.bound - (best << price.shift)
    kept = sorted(int(np.count_nonzero(regret <= gap)) for regret in price.alone)
    return prod(kept[:-1])


def _improved(exchange: Exchange, prices: list[Price], start: Found) -> Found:
    """A good combination with two movers at a time put at their best beside the others."""
    found = start
    for price in prices:
        picks = [int(regret.argmin()) for regret in price.regrets]
        if not _holds_together(exchange, picks):
            continue
        for index in range(len(picks)):
            raise_mover(exchange, picks, index)
        worth = sum(int(m.worth[k]) for m, k in zip(exchange.movers, picks, strict=True))
        if worth > found.worth:
            found = Found(worth, (tuple(picks),))
    pairs = combinations(range(len(exchange.movers)), 2)
    for pair in pairs if len(exchange.movers) > 2 else ():
        better = _joined(exchange, prices[0], found.worth + 1, pair, found.picks[0])
        found = better or found
    return found


def _holds_together(exchange: Exchange, picks: Sequence[int]) -> bool:
    asked = [
        picks[other] >= first[picks[index]]
        for index in range(len(picks))
        for other, first in exchange.asks[index]
    ]
    return all(asked) and bool((rest_of(exchange, picks) >= 0).all())


def _joined(
    exchange: Exchange, price: Price, best: int, free: Sequence[int], picks: Sequence[int]
) -> Found | None:
    """The best combinations that reach `best`, movers that are not free at their picks."""
    movers, room = exchange.movers, exchange.room
    gap = price.bound - (best << price.shift)
    kept = [
        np.flatnonzero(regret <= gap) if index in free else np.array([picks[index]])
        for index, regret in enumerate(price.alone)
    ]
    if not all(map(len, kept)):
        return None
    order = sorted(range(len(movers)), key=lambda i: (movers[i].rises, len(kept[i])))
    last = order[-1]
    joined: list[Integers] = []  # [combination] by mover in `order`
    regrets = np.zeros(1, dtype=np.int64)
    rest = room[:, None]  # [row, combination]
    for index in order[:-1] if movers[last].rises else order:
        if len(regrets) * len(kept[index]) > MOST_PAIRS:
            raise TooManyError
        if index in price.losses:  # order begins with the fitted variable that asks for blocks
            regrets = regrets - price.losses[index][joined[0]]
        at, new = np.nonzero(regrets[:, None] + price.regrets[index][kept[index]] <= gap)
        new = kept[index][new]
        left = rest[:, at] - movers[index].costs[:, new]
        fits = (left >= 0).all(axis=0)
        at, new, rest = at[fits], new[fits], left[:, fits]
        regrets = regrets[at] + price.regrets[index][new]
        joined = [*(each[at] for each in joined), new]
    if movers[last].rises:
        fitting = last_that_fits(narrowed(movers[last], kept[last]), rest)
        fits = fitting >= 0
        joined = [*(each[fits] for each in joined), kept[last][fitting[fits]]]
    return _best(exchange, best, dict(zip(order, joined, strict=True)))


def _best(exchange: Exchange, best: int, joined: dict[int, Integers]) -> Found | None:
    """The combinations of most worth, of those that hold what fitted variables ask for."""
    movers = exchange.movers
    each = [movers[index].worth[picks] for index, picks in joined.items()]
    worth: Integers = np.sum(each, axis=0)
    holds = worth >= best
    for index in joined:
        for other, first in exchange.asks[index]:
            holds &= joined[other] >= first[joined[index]]
    if not holds.any():
        return None
    top = int(worth[holds].max())
    winners = np.flatnonzero(holds & (worth == top))
    if len(winners) > MOST_WINNERS:
        raise TooManyError
    picks = [joined[index][winners].tolist() for index in range(len(movers))]
    # Of candidates that are worth the same one is enough: the least value is looked up later.
    unique = {
        tuple(int(mover.worth[at]) for mover, at in zip(movers, entry, strict=True)): entry
        for entry in zip(*picks, strict=True)
    }
    return Found(top, tuple(unique.values()))
