"""The best combinations of candidates against every combination."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from kvplan.kernels.exchange import join
from kvplan.kernels.exchange.arrays import Exchange, Mover, TooManyError, exchange_between
from kvplan.kernels.exchange.join import best_combinations
from kvplan.kernels.instance import ObjectiveTerm, Variable

ROWS = 2


def drawn(seed: int, *, asks: bool) -> Exchange:
    """Two to four pools of random bytes and worths; a capacity may ask for blocks of the first."""
    draw = np.random.default_rng(seed)
    movers = [_pool(draw, index) for index in range(draw.integers(2, 5))]
    if asks:
        movers[1:] = [_capacity(draw, len(movers[0].values)), *movers[1:3]]
    most = np.array([sum(int(m.costs[row].max()) for m in movers) for row in range(ROWS)])
    room = most * draw.integers(20, 110, ROWS) // 100
    return exchange_between(tuple(movers), room)


def _pool(draw: np.random.Generator, index: int) -> Mover:
    count = int(draw.integers(1, 9))
    costs = np.cumsum(draw.integers(0, 40, (ROWS, count)), axis=1)
    worth = np.cumsum(draw.integers(0, 25, count)) - 20
    term = ObjectiveTerm(Variable("blocks", index), Fraction(1), None)
    return Mover(term, np.arange(count), costs, worth, {}, rises=True)


def _capacity(draw: np.random.Generator, blocks: int) -> Mover:
    """Bytes that may fall as the capacity rises, and blocks of pool 0 that rise with it."""
    count = int(draw.integers(1, 9))
    term = ObjectiveTerm(Variable("capacity", 0), Fraction(1), None)
    worth = np.cumsum(draw.integers(0, 25, count))
    needs = {0: np.sort(draw.integers(0, blocks + 1, count))}
    return Mover(term, np.arange(count), draw.integers(0, 90, (ROWS, count)), worth, needs)


def every(exchange: Exchange) -> tuple[int, set[tuple[int, ...]]] | None:
    """The best sum and the worths of the combinations that reach it, by enumeration."""
    best: tuple[int, set[tuple[int, ...]]] | None = None
    for picks in product(*(range(len(mover.values)) for mover in exchange.movers)):
        chosen = list(zip(exchange.movers, picks, strict=True))
        used = sum(mover.costs[:, at] for mover, at in chosen)
        asked = [int(blocks[at]) for mover, at in chosen for blocks in mover.needs.values()]
        if (used > exchange.room).any() or any(blocks > picks[0] for blocks in asked):
            continue
        worths = tuple(int(mover.worth[at]) for mover, at in chosen)
        if best is None or sum(worths) > best[0]:
            best = sum(worths), set()
        if sum(worths) == best[0]:
            best[1].add(worths)
    return best


def found(exchange: Exchange, need: int | None) -> tuple[int, set[tuple[int, ...]]] | None:
    answer = best_combinations(exchange, need)
    if answer is None:
        return None
    worths = [mover.worth for mover in exchange.movers]
    return answer.worth, {
        tuple(int(worth[at]) for worth, at in zip(worths, picks, strict=True))
        for picks in answer.picks
    }


@pytest.mark.parametrize("asks", [False, True])
def test_all_best_combinations_are_found(asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "FEW_PAIRS", 4)  # so that better sums are looked for too
    refused = 0
    for seed in range(300):
        exchange = drawn(seed, asks=asks)
        truth = every(exchange)
        assert found(exchange, None) == truth, seed
        if truth is None:
            refused += 1
            continue
        assert found(exchange, truth[0]) == truth, seed
        assert found(exchange, truth[0] + 1) is None, seed
    assert 0 < refused < 150


def test_too_many_combinations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "MOST_PAIRS", 0)
    with pytest.raises(TooManyError):
        best_combinations(drawn(1, asks=False), None)
