"""Residue classes of a variable capacity, and its least needs, against every token."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance
from kvplan.kernels.largest import bisect_largest
from kvplan.kernels.residues import Residues, count_least, falling, live_period
from support.instance import instance_of, last, windows
from support.micro import micro

MOST = 300


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


def by_classes(residues: Residues, fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest capacity in [low, high] that fits: the requested one, or a bisection a class."""
    if fits(high):
        return high
    found = []
    for residue in residues.classes:
        first = low + (residue - low) % residues.period
        steps = (high - 1 - first) // residues.period
        if steps >= 0 and fits(first):
            last = bisect_largest(lambda n, at=first: fits(at + n * residues.period), 0, steps)
            found.append(first + last * residues.period)
    return max(found, default=None)


def drawn(
    instance: Instance, needs: dict[int, tuple[int, ...]], seed: str
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Limits by pool, and a range of capacities."""
    rng = random.Random(seed)
    for _ in range(120):
        limits = limits_of(needs, rng)
        low = rng.randint(instance.fitted[0].least, MOST)
        yield limits, low, rng.randint(low, MOST)


@pytest.mark.parametrize("name", CASES)
def test_the_largest_that_fits_is_found_whatever_the_limits(name: str) -> None:
    instance = CASES[name]
    needs, residues = needs_of(instance), Residues(instance, 0)
    for limits, low, high in drawn(instance, needs, name):
        fitting = {c: all(map(int.__le__, needs[c], limits)) for c in range(low, high + 1)}
        found = by_classes(residues, fitting.__getitem__, low, high)
        assert found == last(fitting.values(), low)


@pytest.mark.parametrize("name", CASES)
def test_no_need_falls_along_a_residue_class(name: str) -> None:
    needs, period = needs_of(CASES[name]), Residues(CASES[name], 0).period
    for capacity, need in needs.items():
        later = needs.get(capacity + period, need)
        assert all(map(int.__le__, need, later)), capacity


@pytest.mark.parametrize("name", CASES)
def test_needs_rise_only_after_a_class_and_fall_only_at_a_falling_capacity(name: str) -> None:
    instance = CASES[name]
    needs, residues = needs_of(instance), Residues(instance, 0)
    falls = falling(instance, 0)
    for capacity, need in needs.items():
        later = needs.get(capacity + 1, need)
        if any(map(int.__lt__, need, later)):
            assert capacity % residues.period in residues.classes, capacity
        if any(map(int.__gt__, need, later)):
            assert any((capacity + 1) % t == offset for t, offset in falls), capacity


@pytest.mark.parametrize(
    ("name", "period", "classes"),
    [
        ("full", 1, [0]),
        ("windows of 16 and 64", 64, [0, 16, 32, 48]),
        ("windows and full", 64, [*range(0, 64, 8)]),
        ("sinks", 64, [0, 16, 32, 48]),
        # Also C = C - H = 90 and C = R = 5, mod 16 and mod 64.
        ("scratch", 64, [0, 5, 10, 16, 21, 26, 32, 37, 42, 48, 53, 58]),
        ("prefix", 64, [0, 3, 16, 19, 32, 35, 48, 51]),
        ("peak and in flight", 16, [*range(16)]),
        ("nothing in flight", 8, [0]),
    ],
)
def test_no_more_classes_than_needs_step_at(name: str, period: int, classes: list[int]) -> None:
    residues = Residues(CASES[name], 0)
    assert (residues.period, residues.classes) == (period, classes)


def test_without_a_window_a_class_is_as_fine_as_the_blocks_allow() -> None:
    residues = Residues(problem_of([FULL, {"kind": "full", "tokens_per_block": 36}]), 0)
    assert (residues.period, residues.classes) == (12, [0])
    state = Residues(problem_of([{"kind": "state"}]), 0)
    assert (state.period, state.classes) == (1, [0])


@pytest.mark.parametrize("name", CASES)
def test_the_least_needs_contain_a_fit_if_there_is_one(name: str) -> None:
    instance = CASES[name]
    needs, residues = needs_of(instance), Residues(instance, 0)
    for limits, low, high in drawn(instance, needs, name):
        points = residues.least(low, high)
        assert all(low <= point <= high for point in points)
        anywhere = any(all(map(int.__le__, needs[c], limits)) for c in range(low, high + 1))
        assert any(all(map(int.__le__, needs[c], limits)) for c in points) == anywhere
        assert len(points) <= 1 + sum(live_period(instance) // t for t, _ in falling(instance, 0))


@pytest.mark.parametrize("name", CASES)
def test_no_more_least_needs_are_listed_than_counted(name: str) -> None:
    instance = CASES[name]
    least = instance.fitted[0].least
    assert len(Residues(instance, 0).least(least, MOST)) <= 1 + count_least(instance, 0)


@pytest.mark.parametrize("name", CASES)
def test_some_need_falls_as_the_capacity_grows_where_a_window_is_live(name: str) -> None:
    """The cases are no plain bisection, but for those without a live window."""
    needs = needs_of(CASES[name])
    steps = [(needs[c], needs[c + 1]) for c in needs if c + 1 in needs]
    falls = any(any(map(int.__gt__, now, then)) for now, then in steps)
    assert falls == (name != "full")


@given(st.data())
def test_a_random_limit_of_every_class_is_found(data: st.DataObject) -> None:
    """Fits of blocks of 16 in periods of 64: each class has its own limit, or none."""
    residues = Residues(problem_of(WINDOWS), 0)
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
    assert by_classes(residues, fits, low, high) == last(everything, low)
