"""Blocks by simulation, against walks over single tokens and the formulas of the design."""

import math
from fractions import Fraction
from itertools import product

import pytest

from kvplan.models.pools import Cache
from kvplan.solver.oracle.blocks import (
    completed,
    dead_blocks,
    flight_blocks,
    footprint,
    touched,
    worst_window,
)

BLOCKS = (1, 2, 3, 5, 8)
WINDOWS = (1, 2, 3, 7, 12)
SINKS = (0, 1, 4, 7)
FLIGHTS = (1, 2, 5, 9)


def ceil(left: int, right: int) -> int:
    return -(-left // right)


def test_blocks_of_tokens() -> None:
    for t, tokens in product(BLOCKS, range(40)):
        owner = [token // t for token in range(tokens)]
        assert touched(tokens, t) == len(set(owner))
        assert completed(tokens, t) == sum(owner.count(block) == t for block in set(owner))
    assert touched(-3, 4) == completed(-3, 4) == 0
    assert touched(2**70, 2) == 2**69


def test_dead_blocks_are_those_without_a_token_in_window_or_sink() -> None:
    for t, window, sink, history in product(BLOCKS, WINDOWS, SINKS, range(45)):
        cache = Cache(name="c", kind="window", keep="live", window=window, sink=sink)
        alive = {*range(sink), *range(max(0, history + 1 - window), history + 1)}
        blocks = range(history // t + 1)
        walked = {b for b in blocks if not alive & set(range(b * t, b * t + t))}
        assert walked == set(dead_blocks(cache, t, history))


@pytest.mark.parametrize("t", BLOCKS)
def test_peak_slides_over_every_instant(t: int) -> None:
    for window, sink, flight, capacity in product(WINDOWS, SINKS, FLIGHTS, (1, 2, 9, 17, 40)):
        cache = Cache(name="c", kind="window", window=window, sink=sink, in_flight=flight)
        held = footprint(cache, t, capacity, 0, flight, 0).own
        sinks = ceil(sink, t)
        assert held == min(ceil(capacity, t), sinks + (window + flight + t - 3) // t + 1)
        worst = 0
        for newest in range(capacity):
            first_seen = max(0, newest + 1 - flight + 1 - window)
            tokens = {*range(min(sink, newest + 1)), *range(first_seen, newest + 1)}
            worst = max(worst, len({token // t for token in tokens}))
        assert held == worst


@pytest.mark.parametrize("t", BLOCKS)
def test_live_window_at_the_declared_instant(t: int) -> None:
    for window, sink, capacity, extra in product(WINDOWS, SINKS, (1, 5, 16, 31), (0, 1)):
        cache = Cache(
            name="c", kind="window", keep="live", window=window, sink=sink, extra_blocks=extra
        )
        for history in range(capacity + 1):
            start = min(ceil(history, t), ceil(sink, t))
            stale = max(start, (history + 1 - window) // t) - start
            expected = ceil(capacity, t) - stale + extra
            assert footprint(cache, t, capacity, history, 1, 0).own == expected


@pytest.mark.parametrize("prefix", [0, 1, 7, 16, 40])
def test_live_window_and_full_beside_a_prefix(prefix: int) -> None:
    full = Cache(name="f", kind="full", extra_blocks=1)
    for t, window, sink, capacity in product((1, 3, 8), WINDOWS, SINKS, (1, 6, 17, 33)):
        live = Cache(name="w", kind="window", keep="live", window=window, sink=sink)
        shared, end = prefix // t, ceil(capacity, t)
        assert footprint(full, t, capacity, capacity, 1, prefix).own == max(0, end - shared) + 1
        for history in (0, capacity // 2, capacity):
            start = min(ceil(history, t), ceil(sink, t))
            stale = set(range(start, (history + 1 - window) // t))
            own = set(range(shared, end)) - stale
            assert footprint(live, t, capacity, history, 1, prefix).own == len(own)


@pytest.mark.parametrize("rewind", [0, 1, 6])
@pytest.mark.parametrize("fraction", [Fraction(1, 4), Fraction(2, 3), Fraction(0)])
def test_scratch_is_rounded_per_request(rewind: int, fraction: Fraction) -> None:
    for t, window, sink, capacity, prefix in product((1, 3, 8), WINDOWS, (0, 4), (9, 34), (0, 11)):
        scratch = {"fraction": fraction, "max_rewind": rewind}
        cache = Cache.model_validate(
            {
                "name": "c",
                "kind": "window",
                "keep": "live",
                "window": window,
                "sink": sink,
                "scratch": scratch,
            }
        )
        plain = cache.model_copy(update={"scratch": None})
        for history in range(0, capacity + 1, 3):
            after = max(0, capacity - rewind)
            start = min(ceil(after, t), ceil(sink, t))
            gone = set(range(start, (after + 1 - window) // t))
            fresh = set(range(max(prefix // t, ceil(history, t)), ceil(capacity, t)))
            number = len(gone & fresh)
            need = footprint(plain, t, capacity, history, 1, prefix).own
            expected = max(0, need - number + math.ceil(number * fraction))
            assert footprint(cache, t, capacity, history, 1, prefix).own == expected


@pytest.mark.parametrize("flight", FLIGHTS)
def test_windows_and_chunks_by_tokens_in_flight(flight: int) -> None:
    for t, window, capacity, extra in product(BLOCKS, WINDOWS, (1, 4, 11, 30), (0, 2)):
        fields = {"name": "c", "extra_blocks": extra, "in_flight": flight}
        inside = Cache(kind="window", keep="in_flight", window=window, **fields)
        local = Cache(kind="chunked", chunk=window, **fields)
        held = {
            inside: ceil(min(window - 1 + flight, capacity), t) + extra,
            local: ceil(min(window + flight, capacity), t) + extra,
        }
        shared = {
            inside: ceil(min(window - 1, capacity), t) + extra,
            local: ceil(min(window, capacity), t) + extra,
        }
        for cache in (inside, local):
            assert footprint(cache, t, capacity, 0, flight, 0).own == held[cache]
            assert flight_blocks(cache, t, flight) == 0
            common = cache.model_copy(update={"in_flight_per": "batch"})
            assert footprint(common, t, capacity, 0, flight, 0).own == shared[cache]
            assert flight_blocks(common, t, flight) == ceil(flight, t)


def test_state_holds_its_blocks_whatever_the_tokens() -> None:
    cache = Cache(name="c", kind="state", blocks=3, extra_blocks=1)
    assert {footprint(cache, 4, c, c, f, 0).own for c, f in product((0, 1, 99), (1, 7))} == {4}


def test_worst_window_of_an_endless_slide() -> None:
    for t, window, sink in product(BLOCKS, WINDOWS, SINKS):
        cache = Cache(name="c", kind="window", keep="live", window=window, sink=sink)
        assert worst_window(cache, t) == ceil(sink, t) + (window + t - 2) // t + 1
