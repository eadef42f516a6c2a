"""The best combinations of candidates that fit the room, all of them.

A price p on every byte of a row bounds any combination:
worth <= sum over movers of max(worth - p cost) + p room. What a candidate falls short of its
mover's maximum, its regret, comes off that bound, so only combinations whose regrets sum to no
more than the bound less the best sum known can be optimal. They are joined mover by mover; the
last mover takes what fits. All in integers: a price is a fraction with a denominator 2^shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvplan.kernels.movers import Exchange, Integers, Mover, UnsuitedError

MOST_PAIRS = 1 << 18
MOST_WINNERS = 1 << 10
_SAMPLES = 96
_HALVINGS = 28
_MOST_ORDERS = 6
_PRICED_ROWS = 2
_BITS = 60
NEVER = 1 << _BITS + 1  # regret of what cannot be


class Found(NamedTuple):
    """The best sum of worths, and the index of every mover's candidate in each combination."""

    worth: int
    picks: tuple[tuple[int, ...], ...]


class Price(NamedTuple):
    """What candidates fall short of the bound by; all times 2^shift."""

    regrets: tuple[Integers, ...]  # [candidate] by mover
    alone: tuple[Integers, ...]  # the same, or less: what a candidate costs in any combination
    losses: dict[int, Integers]  # by pool that moves: [fitted candidate] counted there already
    bound: int
    shift: int


def best_combinations(exchange: Exchange, need: int | None) -> Found | None:
    """Every best combination; None where nothing fits or nothing reaches `need`.

    Raises
    ------
    UnsuitedError : too many combinations are left to compare.
    """
    start = _greedy(exchange)
    if start is None:
        return None
    prices = _priced(exchange, start.picks[0])
    if need is None or (need << prices[0].shift) <= prices[0].bound:
        start = _improved(exchange, prices, start)
    best = start.worth if need is None else max(start.worth, need)
    return _joined(exchange, prices[0], best, range(len(exchange.movers)), start.picks[0])


# --- a good combination ----------------------------------------------------------------------


def _greedy(exchange: Exchange) -> Found | None:
    """Movers raised one after the other, in the best of some orders."""
    movers, _ = exchange
    first = _least(exchange)
    if first is None:
        return None
    best: Found | None = None
    for number, order in enumerate(permutations(range(len(movers)))):
        if number == _MOST_ORDERS:
            break
        picks = [*first]
        for index in order:
            _raise(exchange, picks, index)
        worth = sum(int(m.worth[k]) for m, k in zip(movers, picks, strict=True))
        if best is None or worth > best.worth:
            best = Found(worth, (tuple(picks),))
    return best


def _least(exchange: Exchange) -> list[int] | None:
    """A first combination that fits; None if there is none."""
    movers, room = exchange
    picks = [0] * len(movers)
    for index, mover in enumerate(movers):
        if not mover.rises:
            fits = _fits_with_needs(exchange, picks, index)
            if not fits.any():
                return None
            _pick(exchange, picks, index, int(fits.argmax()))
    return picks if (_rest(exchange, picks) >= 0).all() else None


def _raise(exchange: Exchange, picks: list[int], index: int) -> None:
    mover = exchange.movers[index]
    if mover.rises:
        rest = _rest(exchange, picks) + mover.costs[:, picks[index]]
        picks[index] = max(picks[index], int(_last_that_fits(mover, rest[:, None])[0]))
    else:
        fits = _fits_with_needs(exchange, picks, index)
        _pick(exchange, picks, index, int(np.flatnonzero(fits)[-1]))


def _rest(exchange: Exchange, picks: Sequence[int]) -> Integers:
    rest = exchange.room.copy()
    for mover, pick in zip(exchange.movers, picks, strict=True):
        rest -= mover.costs[:, pick]
    return rest


def _last_that_fits(mover: Mover, rest: Integers) -> Integers:
    """Largest candidate within every row's rest [row, combination]; -1 if none is."""
    last = np.full(rest.shape[1], len(mover.values) - 1, dtype=np.int64)
    for costs, left in zip(mover.costs, rest, strict=True):
        if costs[-1]:
            last = np.minimum(last, np.searchsorted(costs, left, side="right") - 1)
        else:
            last[left < 0] = -1
    return last


def _asked(exchange: Exchange, index: int) -> list[tuple[int, Integers]]:
    """(mover, first candidate that holds what is asked for) for every pool that moves too."""
    asked = []
    for other, mover in enumerate(exchange.movers):
        needs = exchange.movers[index].needs.get(mover.term.variable.position)
        if mover.term.variable.kind == "blocks" and needs is not None:
            asked.append((other, np.searchsorted(mover.values, needs)))
    return asked


def _fits_with_needs(exchange: Exchange, picks: Sequence[int], index: int) -> NDArray[np.bool_]:
    """Candidates of a fitted variable that fit, the pools raised to what each asks for."""
    mover = exchange.movers[index]
    used = mover.costs - mover.costs[:, picks[index], None]
    rest = _rest(exchange, picks)
    fits = np.ones(len(mover.values), dtype=bool)
    for other, first in _asked(exchange, index):
        pool = exchange.movers[other]
        fits &= first < len(pool.values)
        held = np.minimum(np.maximum(first, picks[other]), len(pool.values) - 1)
        used = used + pool.costs[:, held] - pool.costs[:, picks[other], None]
    return fits & (used <= rest[:, None]).all(axis=0)


def _pick(exchange: Exchange, picks: list[int], index: int, candidate: int) -> None:
    picks[index] = candidate
    for other, first in _asked(exchange, index):
        picks[other] = max(picks[other], int(first[candidate]))


# --- the price of a byte ---------------------------------------------------------------------


def _priced(exchange: Exchange, picks: Sequence[int]) -> list[Price]:
    """Bounds by prices on the rows that a good combination leaves least of; the lowest first."""
    movers, room = exchange
    lows = [mover.costs.min(axis=1) for mover in movers]
    spare = room - sum(lows)
    most = sum(int(np.abs(mover.worth).max()) for mover in movers)
    shift = _BITS - 2 - most.bit_length()
    if shift < 0:
        raise UnsuitedError
    worths = [mover.worth << shift for mover in movers]
    prices = [_at_price(exchange, worths, shift, 0)]
    for row in np.argsort(_rest(exchange, picks), kind="stable")[:_PRICED_ROWS]:
        costs = [mover.costs[row] - low[row] for mover, low in zip(movers, lows, strict=True)]
        taken, left = sum(int(cost.max()) for cost in costs), int(spare[row])
        if taken:
            for p in _near_best(worths, costs, left, (1 << _BITS) // (taken + max(1, left))):
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
    for other, first in _asked(exchange, asking):
        loss = np.minimum.accumulate(regrets[other][::-1])[::-1]
        losses[other] = np.append(loss, NEVER)[first]
        regrets[asking] = np.minimum(regrets[asking] + losses[other], NEVER)
    least = int(regrets[asking].min())
    regrets[asking] -= least
    alone = [*regrets]
    for other, first in _asked(exchange, asking):
        beside = np.full(len(regrets[other]) + 1, NEVER)
        np.minimum.at(beside, first, regrets[asking] - losses[other])
        alone[other] = regrets[other] + np.minimum.accumulate(beside)[:-1]
    return Price(tuple(regrets), tuple(alone), losses, bound - least, shift)


def _near_best(
    worths: list[Integers], costs: list[Integers], spare: int, highest: int
) -> tuple[int, int]:
    """Two prices around the one at which a sample of the candidates takes just what there is."""
    places = [
        np.unique(np.linspace(0, len(worth) - 1, _SAMPLES).astype(np.int64)) for worth in worths
    ]
    sampled = [
        (worth[at], cost[at]) for worth, cost, at in zip(worths, costs, places, strict=True)
    ]
    low, high = 0, highest
    for _ in range(_HALVINGS):
        middle = (low + high) // 2
        taken = sum(int(cost[(worth - middle * cost).argmax()]) for worth, cost in sampled)
        low, high = (middle, high) if taken > spare else (low, middle)
    return low, high


# --- better combinations ---------------------------------------------------------------------


def _improved(exchange: Exchange, prices: list[Price], start: Found) -> Found:
    """A good combination with two movers at a time put at their best beside the others."""
    found = start
    for price in prices:
        picks = [int(regret.argmin()) for regret in price.regrets]
        if not _holds_together(exchange, picks):
            continue
        for index in range(len(picks)):
            _raise(exchange, picks, index)
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
        for other, first in _asked(exchange, index)
    ]
    return all(asked) and bool((_rest(exchange, picks) >= 0).all())


# --- joining ---------------------------------------------------------------------------------


def _joined(
    exchange: Exchange, price: Price, best: int, free: Sequence[int], picks: Sequence[int]
) -> Found | None:
    """The best combinations that reach `best`, movers that are not free at their picks."""
    movers, room = exchange
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
            raise UnsuitedError
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
        narrowed = _narrowed(movers[last], kept[last])
        fitting = _last_that_fits(narrowed, rest)
        fits = fitting >= 0
        joined = [*(each[fits] for each in joined), kept[last][fitting[fits]]]
    return _best(exchange, best, dict(zip(order, joined, strict=True)))


def _narrowed(mover: Mover, kept: Integers) -> Mover:
    return mover._replace(
        values=mover.values[kept], costs=mover.costs[:, kept], worth=mover.worth[kept]
    )


def _best(exchange: Exchange, best: int, joined: dict[int, Integers]) -> Found | None:
    """The combinations of most worth, of those that hold what fitted variables ask for."""
    movers = exchange.movers
    worth = sum(movers[index].worth[picks] for index, picks in joined.items())
    holds = worth >= best
    for index in joined:
        for other, first in _asked(exchange, index):
            holds &= joined[other] >= first[joined[index]]
    if not holds.any():
        return None
    top = int(worth[holds].max())
    winners = np.flatnonzero(holds & (worth == top))
    if len(winners) > MOST_WINNERS:
        raise UnsuitedError
    picks = [joined[index][winners].tolist() for index in range(len(movers))]
    # Of candidates that are worth the same one is enough: the least value is looked up later.
    unique = {
        tuple(int(mover.worth[at]) for mover, at in zip(movers, entry, strict=True)): entry
        for entry in zip(*picks, strict=True)
    }
    return Found(top, tuple(unique.values()))
