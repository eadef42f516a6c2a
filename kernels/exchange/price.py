"""Bounds by a price on every byte of one row.

worth <= sum over movers of max(worth - p cost) + p room. What a candidate falls short of its
mover's maximum there, its regret, comes off that bound. All in integers: a price is a fraction
with a denominator 2^shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvplan.kernels.exchange.arrays import (
    Exchange,
    Integers,
    UnsuitedError,
    exchange_between,
    narrowed,
    rest_of,
)

_SAMPLES = 96
_HALVINGS = 28
_FEW_HALVINGS = 14  # where each takes long
_PRICED_ROWS = 2
_BITS = 60
NEVER = 1 << _BITS + 1  # regret of what cannot be


class Price(NamedTuple):
    """What candidates fall short of the bound by; all times 2^shift."""

    regrets: tuple[Integers, ...]  # [candidate] by mover
    alone: tuple[Integers, ...]  # the same, or less: what a candidate costs in any combination
    losses: dict[int, Integers]  # by pool that moves: [fitted candidate] counted there already
    bound: int
    shift: int


def priced(exchange: Exchange, picks: Sequence[int]) -> list[Price]:
    """Bounds by prices on the rows that a good combination leaves least of; the lowest first."""
    movers, room = exchange.movers, exchange.room
    lows = [mover.costs.min(axis=1) for mover in movers]
    spare = room - sum(lows)
    most = sum(int(np.abs(mover.worth).max()) for mover in movers)
    shift = _BITS - 2 - most.bit_length()
    if shift < 0:
        raise UnsuitedError
    worths = [mover.worth << shift for mover in movers]
    prices = [_at_price(exchange, worths, shift, 0)]
    places = _sampled(exchange)
    sample = exchange_between(tuple(map(narrowed, movers, places)), room)
    for row in np.argsort(rest_of(exchange, picks), kind="stable")[:_PRICED_ROWS]:
        costs = [mover.costs[row] - low[row] for mover, low in zip(movers, lows, strict=True)]
        taken, left = sum(int(cost.max()) for cost in costs), int(spare[row])
        if taken:
            tried = [
                (worth[at], cost[at]) for worth, cost, at in zip(worths, costs, places, strict=True)
            ]
            highest = (1 << _BITS) // (taken + max(1, left))
            for p in _near_best(sample, tried, left, highest):
                gains = [worth - p * cost for worth, cost in zip(worths, costs, strict=True)]
                prices.append(_at_price(exchange, gains, shift, p * left))
    return sorted(prices, key=lambda price: price.bound)


def _at_price(exchange: Exchange, gains: list[Integers], shift: int, room_worth: int) -> Price:
    """Regrets against the most that each mover gains; a fitted one's beside its pools' losses."""
    tops = [int(gain.max()) for gain in gains]
    regrets = [top - gain for top, gain in zip(tops, gains, strict=True)]
    bound = sum(tops) + room_worth
    asking = next((i for i, mover in enumerate(exchange.movers) if mover.needs), None)
    if asking is None:
        return Price(tuple(regrets), tuple(regrets), {}, bound, shift)
    losses = {}
    for other, first in exchange.asks[asking]:
        loss = np.minimum.accumulate(regrets[other][::-1])[::-1]
        losses[other] = np.append(loss, NEVER)[first]
        regrets[asking] = np.minimum(regrets[asking] + losses[other], NEVER)
    least = int(regrets[asking].min())
    regrets[asking] -= least
    alone = [*regrets]
    for other, first in exchange.asks[asking]:
        beside = np.full(len(regrets[other]) + 1, NEVER)
        np.minimum.at(beside, first, regrets[asking] - losses[other])
        alone[other] = regrets[other] + np.minimum.accumulate(beside)[:-1]
    return Price(tuple(regrets), tuple(alone), losses, bound - least, shift)


def _sampled(exchange: Exchange) -> list[Integers]:
    """Some candidates of every mover; of a pool also those that a fitted one's sample asks for."""
    places = []
    for mover in exchange.movers:
        last, samples = len(mover.values) - 1, min(len(mover.values), _SAMPLES)
        places.append(np.arange(samples, dtype=np.int64) * last // max(1, samples - 1))
    for index, at in enumerate(places):
        for other, first in exchange.asks[index]:
            asked = np.minimum(first[at], len(exchange.movers[other].values) - 1)
            places[other] = np.sort(np.concatenate([places[other], asked]))
    return places


def _near_best(
    sample: Exchange, figures: list[tuple[Integers, Integers]], spare: int, highest: int
) -> tuple[int, int]:
    """Two prices around the one at which a sample of the candidates takes just what there is."""
    asks = any(mover.needs for mover in sample.movers)
    low, high = 0, highest
    for _ in range(_FEW_HALVINGS if asks else _HALVINGS):
        middle = (low + high) // 2
        gains = [worth - middle * cost for worth, cost in figures]
        best = _best_together(sample, gains) if asks else [int(gain.argmax()) for gain in gains]
        taken = sum(int(cost[at]) for (_, cost), at in zip(figures, best, strict=True))
        low, high = (middle, high) if taken > spare else (low, middle)
    return low, high


def _best_together(exchange: Exchange, gains: list[Integers]) -> list[int]:
    """The candidates of most gain, a fitted one's with what it asks for."""
    regrets = _at_price(exchange, gains, 0, 0).regrets
    best = [int(regret.argmin()) for regret in regrets]
    for index in range(len(best)):
        for other, first in exchange.asks[index]:
            start = int(first[best[index]])
            best[other] = start + int(regrets[other][start:].argmin())
    return best
