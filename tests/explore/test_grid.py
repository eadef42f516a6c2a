"""Grids: which problems they stand for, in which order, and what is refused before solving."""

from __future__ import annotations

import copy
from itertools import product

import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver.explore.grid import build_grid
from support.cases import CASES, load
from support.explored import RICH

PROBLEM = Problem.model_validate(RICH)
QUOTA, USE = "ranks.r0.quota", "resume_utilization"


def overridden(*changes: str) -> Problem:
    return Problem.model_validate(apply_overrides(copy.deepcopy(RICH), changes))


def test_the_last_field_varies_fastest() -> None:
    grid = build_grid(PROBLEM, {QUOTA: "50MiB,60MiB", USE: "0.9:1:0.05", "tokens_per_block": "32"})
    rows = list(product(("50MiB", "60MiB"), ("0.9", "0.95", "1")))
    assert len(grid) == len(rows) == 6
    for row, (quota, use) in enumerate(rows):
        changes = (f"{QUOTA}={quota}", f"{USE}={use}", "tokens_per_block=32")
        assert grid.problem_at(row) == overridden(*changes)


@pytest.mark.parametrize("row", [(5, 0, 5), (3, 5, 1)])
def test_rows_in_any_order_are_the_same(row: tuple[int, ...]) -> None:
    grid = build_grid(PROBLEM, {QUOTA: "50MiB,60MiB", USE: "0.9:1:0.05"})
    fresh = [build_grid(PROBLEM, {QUOTA: "50MiB,60MiB", USE: "0.9:1:0.05"}) for _ in row]
    expected = [each.problem_at(number) for each, number in zip(fresh, row, strict=True)]
    assert [grid.problem_at(number) for number in row] == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("caches.full.groups", "2"),
        ("ranks[1].memory.total", "90MiB"),
        ("ranks.r1.memory.other.new", "1KiB"),
        ("ranks.r1.memory.safety", "1MiB"),
        ("pools.kv.bytes.1", "0"),
        ("pools.kv.granule", "4KiB"),
        ("pools.*.min_blocks", "3"),
        ("batches.chat.requests.many.count", "20"),
        ("batches.chat.requests.0.min_count", "2"),
        ("prefill.staging.buffers.per_token", "0.25KiB"),
        ("prefill.staging.0.base", "1.5kB"),
        ("prefill.step", "128"),
        ("experts.lend.fraction", "1/3"),
        ("experts.layers", "2"),
        ("choices.scratch.options.dense.bytes", "8MiB"),
    ],
)
def test_any_numeric_field_can_vary(path: str, value: str) -> None:
    grid = build_grid(PROBLEM, {path: value})
    assert grid.problem_at(0) == overridden(f"{path}={value}") != PROBLEM


@pytest.mark.parametrize("name", CASES)
def test_a_problem_survives_the_way_into_a_grid(name: str) -> None:
    problem = load(name)
    grid = build_grid(problem, {"version": "1"})
    assert grid.problem_at(0) == problem


@pytest.mark.parametrize(
    ("vary", "line"),
    [
        ({}, "--vary: expected a field to vary, such as ranks.*.quota, got none"),
        (
            {"ranks.x.quota": "1"},
            "ranks.x.quota: expected one of r0, r1, or an index below 2, got 'x'",
        ),
        ({"poools.0.bytes": "1"}, "poools.0.bytes: expected 'pools', got 'poools'"),
        (
            {"ranks..quota": "1"},
            "--vary: expected a path such as ranks.0.quota, got 'ranks..quota'",
        ),
        ({"pool": "1"}, "pool: expected 'pools', got "),
        ({"name": "1"}, "name: expected text, got 1"),
        ({"ranks.r0.name": "1KiB"}, "ranks[0].name: expected a numeric field, got a text"),
        ({"pools.kv": "1KiB"}, "pools[0]: expected "),
        ({"pools.state.resume_headroom": "1"}, "pools[1].resume_headroom: expected true or false"),
        ({QUOTA: "8191PiB:8193PiB:1PiB"}, "ranks[0].quota: expected bytes from 0 to below 2^63"),
        (
            {USE: "0.9:1.1:0.1"},
            "resume_utilization: expected a share above 0 and at most 1, got 1.1",
        ),
        (
            {"experts.max_slots": "0:8:4"},
            "experts.min_slots: expected min_slots of at most max_slots 0, got 4 "
            "(with experts.max_slots=0)",
        ),
        (
            {"batches.long.requests.one.capacity": "1KiB:2KiB:1KiB"},
            "batches[0].requests[0].capacity: expected a whole number of at least 0, got '1024 B'",
        ),
        (
            {"ranks.*.stage": "0", "ranks.r1.stage": "1"},
            "ranks.*.stage: expected fields that no other path varies, got one twice",
        ),
        (
            {"pools.kv.bytes.0": "1", "pools.kv.bytes": "1"},
            "pools.kv.bytes.0: expected fields that no other path varies, got one twice",
        ),
        (
            {"pools.kv.bytes": "1", "pools.kv.bytes.0": "1"},
            "pools.kv.bytes.0: expected a mapping or a list before the last key",
        ),
        (
            {QUOTA: "1:4000:1", "tokens_per_block": "1:2600:1"},
            "--vary: expected at most 10_000_000 rows, got 4_000 x 2_600 = 10_400_000",
        ),
    ],
)
def test_a_bad_grid_is_one_clear_line(vary: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        build_grid(PROBLEM, vary)
    (fault,) = caught.value.faults
    assert str(fault).startswith(line)


def test_what_only_shows_in_the_whole_is_refused_with_the_values_of_the_row() -> None:
    data = copy.deepcopy(RICH)
    data["fill"] = {"batch": "idle"}
    data["batches"] = [{"name": "idle", "requests": [{"name": "one", "capacity": 16, "count": 1}]}]
    data["caches"] = data["caches"][:1]
    problem = Problem.model_validate(data)
    with pytest.raises(InvalidProblem, match=r"got 'idle' \(with .*requests.one.count=0\)"):
        build_grid(problem, {"batches.idle.requests.one.count": "0:2:1"})


def test_the_largest_grid_is_built_at_once() -> None:
    grid = build_grid(PROBLEM, {QUOTA: "60000000:60009999:1", "tokens_per_block": "1:1000:1"})
    assert len(grid) == 10_000_000
    assert grid.problem_at(9_999_999) == overridden(f"{QUOTA}=60009999", "tokens_per_block=1000")
