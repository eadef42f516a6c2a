"""The candidates of a fitted capacity against every token."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels.capacity import CapacityGrid, bisect_largest, largest_unbounded
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance
from support.instance import last, instance_of, windows
from support.micro import micro

MOST = 300


@pytest.mark.parametrize("low", [0, 3])
@pytest.mark.parametrize("limit", [3, 4, 11, 16, 17])
def test_bisection_finds_the_last_that_fits(low: int, limit: int) -> None:
    assert bisect_largest(lambda n: n <= limit, low, 16) == min(limit, 16)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 6, 7, 8, 1000])
def test_without_an_upper_end_it_is_found_by_doubling(limit: int) -> None:
    assert largest_unbounded(lambda n: n <= limit, 0, None) == limit
    assert largest_unbounded(lambda n: n <= limit, 0, 5) == min(limit, 5)
    assert largest_unbounded(lambda n: n <= limit + 9, 9, 9) == 9


def problem_of(caches: list[dict[str, Any]], prefix: int = 0, flight: int = 1) -> Instance:
    """One fitted request with some tokens in flight, every cache on a pool of its own."""
    pools = [{"name": f"p{index}", "bytes": 10} for index in range(len(caches))]
    placed = [{**c, "name": f"c{i}", "pool": f"p{i}"} for i, c in enumerate(caches)]
    request = {"capacity": MOST, "history": MOST - flight, "fit": "capacity"}
    return instance_of(
        micro(
            pools=pools,
            caches=placed,
            batches=[{"name": "b", "shared_prefix": prefix, "requests": [request]}],
        )
    )


WINDOWS = [*windows(16, 40), *windows(64, 100)]
SCRATCH = {"fraction": "1/4", "max_rewind": 5}
FULL = {"kind": "full", "tokens_per_block": 24}
CASES: dict[str, Instance] = {
    "full": problem_of([FULL, {"kind": "full", "tokens_per_block": 7}]),
    "windows of 16 and 64": problem_of(WINDOWS),
    "windows and full": problem_of([*WINDOWS, FULL], flight=9),
    "sinks": problem_of([{**w, "sink": 33} for w in WINDOWS]),
    "scratch": problem_of([{**w, "scratch": SCRATCH} for w in WINDOWS], flight=90),
    "prefix": problem_of(WINDOWS, prefix=70, flight=3),
    "prefix, scratch and full": problem_of(
        [{**w, "scratch": SCRATCH} for w in WINDOWS] + [FULL], prefix=35, flight=130
    ),
    "peak and in flight": problem_of(
        [
            {"kind": "window", "window": 30, "in_flight": 8, "tokens_per_block": 5},
            {"kind": "window", "keep": "in_flight", "window": 30, "tokens_per_block": 9},
            *windows(16, 40),
        ]
    ),
    "nothing in flight": problem_of(windows(8, 1, 10, 34), flight=0),
}


def needs_of(instance: Instance) -> dict[int, tuple[int, ...]]:
    """Raw blocks by pool at every capacity from the lower bound on."""
    demand = Demand(instance)
    return {
        c: tuple(demand.raw(0, 0, (c,), (1,))) for c in range(instance.fitted[0].least, MOST + 1)
    }


def limits_of(needs: dict[int, tuple[int, ...]], rng: random.Random) -> tuple[int, ...]:
    """Blocks by pool: what two capacities need, or a little less."""
    first, second = (needs[rng.choice([*needs])] for _ in range(2))
    return tuple(max(a, b) - rng.choice((0, 0, 1)) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_largest_that_fits_is_found_whatever_the_limits(name: str) -> None:
    instance = CASES[name]
    needs, rng = needs_of(instance), random.Random(name)
    grid = CapacityGrid(instance, 0)
    for _ in range(120):
        limits = limits_of(needs, rng)
        low = rng.randint(instance.fitted[0].least, MOST)
        high = rng.randint(low, MOST)
        fitting = {c: all(map(int.__le__, needs[c], limits)) for c in range(low, high + 1)}
        assert grid.largest(fitting.__getitem__, low, high) == last(fitting.values(), low)


@pytest.mark.parametrize("name", CASES)
def test_the_low_points_contain_a_fit_if_there_is_one(name: str) -> None:
    instance = CASES[name]
    needs, rng = needs_of(instance), random.Random(name)
    grid = CapacityGrid(instance, 0)
    for _ in range(120):
        limits = limits_of(needs, rng)
        low = rng.randint(instance.fitted[0].least, MOST)
        high = rng.randint(low, MOST)
        lows = grid.lows(low, high)
        assert all(low <= point <= high for point in lows)
        anywhere = any(all(map(int.__le__, needs[c], limits)) for c in range(low, high + 1))
        assert any(all(map(int.__le__, needs[c], limits)) for c in lows) == anywhere


@pytest.mark.parametrize("name", CASES)
def test_some_need_falls_as_the_capacity_grows_where_a_window_is_live(name: str) -> None:
    """The cases are no plain bisection, but for the one without a live window."""
    needs = needs_of(CASES[name])
    steps = [(needs[c], needs[c + 1]) for c in needs if c + 1 in needs]
    falls = any(any(map(int.__gt__, now, then)) for now, then in steps)
    assert falls == (name != "full")


def test_few_probes_are_made() -> None:
    """Two classes of 64 and about 20 halvings, where every token would be a million."""
    instance = problem_of(WINDOWS)
    asked: list[int] = []

    def fits(capacity: int) -> bool:
        asked.append(capacity)
        return capacity <= 654_321

    assert CapacityGrid(instance, 0).largest(fits, 1, 2**20) == 654_320
    assert len(asked) < 4 * 25


@given(st.data())
def test_a_random_limit_of_every_class_is_found(data: st.DataObject) -> None:
    """Fits of blocks of 16 in periods of 64: each class has its own limit, or none."""
    instance = problem_of(WINDOWS)
    low = data.draw(st.integers(1, 200), "low")
    high = data.draw(st.integers(low, 600), "high")
    limits = {r: data.draw(st.integers(-1, 700), f"class {r}") for r in (0, 16, 32, 48)}
    whole = data.draw(st.booleans(), "whole request fits")

    def fits(capacity: int) -> bool:
        """What fits before a step fits at the step; the request itself may or may not."""
        step = -(-capacity // 16) * 16
        if step >= high:
            return whole
        return step <= limits[step % 64]

    everything = [fits(c) for c in range(low, high + 1)]
    assert CapacityGrid(instance, 0).largest(fits, low, high) == last(everything, low)
