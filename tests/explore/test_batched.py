"""Rows solved together are those solved one by one, column for column and bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.solver.explore import batched, explore
from kvplan.solver.explore.decided import Figures
from kvplan.solver.explore.grid import Grid, build_grid
from kvplan.solver.explore.grid_blocks import blocks_of
from kvplan.solver.explore.sweep import solve_grid
from support.cases import CASES, load
from support.explored import RICH
from support.grids import assert_equal, drawn_grid, one_by_one
from support.instances import small_problem
from support.micro import cache, micro, one, pool

PROBLEM = Problem.model_validate(RICH)
GIB = 2**30


def assert_same(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> tuple[Figures, int]:
    """The figures, and how many rows the scalar search had to solve."""
    count = 0

    def counted(*arguments: Any) -> Any:
        nonlocal count
        for written, left in solve_block(*arguments):
            count += len(left)
            yield written, left

    solve_block = batched.solve_block
    monkeypatch.setattr("kvplan.solver.explore.sweep.solve_block", counted)
    found = solve_grid(grid)
    assert_equal(found, one_by_one(grid))
    return found, count


@pytest.mark.parametrize("name", CASES)
def test_random_grids_over_shipped_cases(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        problem = load(name)
        assert_same(build_grid(problem, drawn_grid(problem, seed)), monkeypatch)


@pytest.mark.parametrize("utilization", [None, "0.6", "0.9"])
def test_a_headroom_from_staging_counts_as_used(
    utilization: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"total": 1000, "free": 700, "prefill_headroom": "from_staging"}
    if utilization is not None:
        memory["utilization"] = utilization
    staging = [{"name": "s", "per_token": 10}]
    problem = micro(
        ranks=[{"name": "r0", "memory": memory}, {"name": "r1", "quota": 640}],
        prefill={"requested": 30, "min": 1, "staging": staging},
        **one(40, fit="capacity"),
    )
    found, count = assert_same(build_grid(problem, {"prefill.requested": "5:40:1"}), monkeypatch)
    assert count == 0
    assert found["slack"]


@pytest.mark.parametrize("start", range(0, 100, 25))
def test_random_grids_over_random_problems(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together_rows, states = 0, set()
    for seed in range(start, start + 25):
        try:
            problem = small_problem(seed, constraints=False, weighted=False)
            grid = build_grid(problem, drawn_grid(problem, seed, 40))
        except InvalidProblem:
            continue
        found, count = assert_same(grid, monkeypatch)
        together_rows += len(grid) - count
        states |= set(found["status"].codes.tolist())  # type: ignore[union-attr]
    assert together_rows > 100
    assert states == {0, 2}


def test_every_field_that_scenarios_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    vary = {
        "ranks.r0.quota": "5MiB,44MiB,61MiB",
        "batches.long.requests.one.capacity": "20000,40000,999",
        "batches.chat.requests.many.count": "3,250",
        "prefill.requested": "256,2000,3000",
        "resume_utilization": "0.5,1,1/3",
    }
    grid = build_grid(PROBLEM, vary)
    found, count = assert_same(grid, monkeypatch)
    assert (len(grid), count) == (162, 0)
    assert set(found["status"].codes.tolist()) == {0, 2}  # type: ignore[union-attr]


def test_a_field_that_they_cannot_vary_makes_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vary = {
        "experts.min_slots": "4,9",
        "ranks.r0.quota": "5MiB:65MiB:3MiB",
        "tokens_per_block": "16,32",
    }
    grid = build_grid(PROBLEM, vary)
    blocks = list(blocks_of(grid))
    assert [len(block) for block in blocks] == [21] * 4
    assert sorted(
        int(row) for block in blocks for row in block.rows(block.indices(0, len(block)))
    ) == list(range(84))
    assert assert_same(grid, monkeypatch)[1] == 0


def test_auto_granules_and_chunks_that_are_no_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    staging = [{"name": "s", "per_token": "1MiB", "granule": "2MiB"}]
    problem = micro(
        GIB,
        **pool(bytes=5_000_011, granule="auto"),
        **one(900, fit="capacity"),
        prefill={"requested": 700, "step": 64, "staging": staging},
    )
    vary = {"prefill.requested": "700,64,65,1000", "ranks.*.quota": "1GiB:20GiB:333MiB"}
    assert assert_same(build_grid(problem, vary), monkeypatch)[1] == 0
    listed = {"requested": 700, "chunks": [64, 256], "staging": staging}
    problem = micro(GIB, **one(900, fit="capacity"), prefill=listed)
    vary = {"prefill.requested": "700,256,300,1000", "ranks.*.quota": "1MiB:900MiB:99MiB"}
    assert assert_same(build_grid(problem, vary), monkeypatch)[1] == 0


def test_tiles_and_their_order_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vary = {"ranks.r0.quota": "1MiB:70MiB:1MiB", "resume_utilization": "0.9,0.5"}
    whole = solve_grid(build_grid(PROBLEM, vary))
    monkeypatch.setattr(batched, "TILE_ROWS", 7)
    calls: list[tuple[int, int]] = []
    assert_equal(solve_grid(build_grid(PROBLEM, vary), lambda *call: calls.append(call)), whole)
    assert calls == sorted(set(calls))
    assert calls[-1] == (140, 140)
    assert len(calls) >= 20


@pytest.mark.parametrize(
    "sections",
    [
        {"goals": [{"maximize": {"blocks:p": -1, "capacity:q": 1}}]},
        {"constraints": [{"terms": {"blocks:p": 1}, "max": 7}]},
    ],
)
def test_what_the_batched_search_refuses_is_solved_one_by_one(
    sections: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = build_grid(micro(**one(40, fit="capacity"), **sections), {"ranks.*.quota": range(60)})
    calls: list[tuple[int, int]] = []
    solve_grid(grid, lambda *call: calls.append(call))
    assert calls == [(row, 60) for row in range(1, 61)]
    assert assert_same(grid, monkeypatch)[1] == 60


def test_figures_beyond_64_bits_are_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = [*range(0, 200, 10), 2**61, 2**62 - 1, 2**63 - 1]
    grid = build_grid(micro(**one(40, fit="capacity")), {"ranks.*.quota": quotas})
    found, _ = assert_same(grid, monkeypatch)
    blocks: Any = found["blocks:p"]
    assert blocks.values[-3:].tolist() == [quota // 10 for quota in quotas[-3:]]


def test_a_given_history_keeps_the_capacity_out_of_the_scenarios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = micro(300, **one(40, 30, fit="capacity", count=2))
    vary = {"batches.b.requests.q.capacity": range(31, 60)}
    assert assert_same(build_grid(problem, vary), monkeypatch)[1] == 29


def test_a_fault_in_the_middle_is_that_of_its_row() -> None:
    problem = micro(300, **one(40, fit="capacity", min_capacity=30))
    capacities = [*range(40, 55), 12, 13, *range(60, 70)]
    with pytest.raises(InvalidProblem) as caught:
        explore(problem, {"batches.b.requests.q.capacity": capacities})
    assert "of at most capacity 12, got 30" in str(caught.value)


def test_least_demands_that_tie_are_told_by_the_scalar_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two options that lack as much, in different phases: the first in order is named."""
    options = [
        {"name": "a", "bytes": 50, "phases": ["prefill"]},
        {"name": "b", "bytes": 50, "phases": ["decode"]},
    ]
    problem = micro(choices=[{"name": "way", "options": options}], **one(40))
    grid = build_grid(problem, {"ranks.*.quota": range(90, 160)})
    found, count = assert_same(grid, monkeypatch)
    assert count == 60
    phase: Any = found["tightest_phase"]
    assert phase.codes[:60].tolist() == [phase.names.index("prefill")] * 60


def test_a_rank_with_two_bounds_is_told_by_the_scalar_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = {"total": 500, "free": 300, "utilization": 0.5, "prefill_headroom": "from_staging"}
    staging = [{"name": "s", "per_token": 1, "base": 20}]
    problem = micro(
        ranks=[{"name": "r0", "memory": memory}],
        prefill={"requested": 60, "min": 30, "step": 10, "staging": staging},
        **one(40, fit="capacity", min_capacity=30),
    )
    vary = {"batches.b.requests.q.capacity": range(31, 150), "resume_utilization": "0.1,0.3,1"}
    found, count = assert_same(build_grid(problem, vary), monkeypatch)
    infeasible = int((found["status"].codes == 2).sum())  # type: ignore[union-attr]
    assert 0 < count <= infeasible < 357


def test_needs_that_fall_along_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = cache(kind="window", window=9, keep="live")
    problem = micro(100, **windows, **one(200, fit="capacity", min_capacity=3, count=3))
    vary = {
        "ranks.*.quota": range(60, 200, 9),
        "batches.b.requests.q.capacity": range(5, 80, 7),
        "batches.b.requests.q.count": "1,2,4",
    }
    found, _ = assert_same(build_grid(problem, vary), monkeypatch)
    capacities: Any = found["capacity:q"]
    assert len(np.unique(capacities.values)) > 5


def test_what_a_pool_s_limit_forbids_lacks_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = micro(100, **pool(max_blocks=7), **one(40))
    vary = {"ranks.*.quota": range(50, 150, 5), "batches.b.requests.q.capacity": "20,28,29,80"}
    found, count = assert_same(build_grid(problem, vary), monkeypatch)
    shortfall: Any = found["shortfall"]
    status: Any = found["status"]
    assert count == 0
    assert ((status.codes == 2) & shortfall.missing).sum() > 10
    assert ((status.codes == 2) & ~shortfall.missing).sum() > 10


def test_a_limited_pool_stands_behind_bytes_that_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Least demands of which one takes fewer bytes but more blocks than its pool may have."""
    pools = [{"name": "p", "bytes": 10, "max_blocks": 5}, {"name": "q", "bytes": 50}]
    live = {"kind": "window", "keep": "live"}
    caches = [
        {"name": "a", "pool": "p", "window": 5, "tokens_per_block": 5, **live},
        {"name": "b", "pool": "q", "window": 7, "tokens_per_block": 6, **live},
    ]
    request = one(32, fit="capacity", min_capacity=6, count=3)
    problem = micro(100, pools=pools, caches=caches, **request)
    found, count = assert_same(
        build_grid(problem, {"ranks.*.quota": range(0, 300, 10)}), monkeypatch
    )
    shortfall: Any = found["shortfall"]
    assert count == 0
    assert not shortfall.missing[:10].any()


def test_a_request_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = micro(300, **one(40, fit="capacity"))
    vary = {"batches.b.requests.q.count": range(30)}
    assert assert_same(build_grid(problem, vary), monkeypatch)[1] == 30
    given = micro(300, **one(40))
    vary = {"batches.b.requests.q.capacity": range(30)}
    assert assert_same(build_grid(given, vary), monkeypatch)[1] == 30


def test_two_batches_may_use_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [
        {"name": name, "requests": [{"name": "q", "capacity": capacity, "count": 2}]}
        for name, capacity in (("a", 8), ("b", 12))
    ]
    grid = build_grid(micro(500, batches=batches), {"batches.a.requests.q.count": range(1, 40)})
    found, _ = assert_same(grid, monkeypatch)
    status: Any = found["status"]
    assert status.codes.tolist() == [0] * 25 + [2] * 14


@pytest.mark.parametrize("path", ["ranks.*.quota", "batches.b.requests.q.capacity"])
def test_a_fraction_of_a_byte_or_token_is_refused(path: str) -> None:
    problem = micro(300, **one(40, fit="capacity"))
    with pytest.raises(InvalidProblem, match=r"got 61\.5"):
        explore(problem, {path: [*range(41, 61), "61.5", *range(62, 70)]})


def test_a_fraction_of_a_unit_is_the_quota_s_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    vary = {"ranks.*.quota": "0.05KiB:0.5KiB:0.013KiB"}
    found, count = assert_same(build_grid(micro(**one(4)), vary), monkeypatch)
    blocks: Any = found["blocks:p"]
    assert count == 0
    assert blocks.values[:3].tolist() == [5, 6, 7]  # 51.2, 64.512 and 77.824 B


def test_a_problem_without_pools_has_rows_for_every_utilization(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = Problem.model_validate({"ranks": [{"name": "r", "quota": 10}]})
    grid = build_grid(bare, {"resume_utilization": "0.05:1:0.05", "ranks.r.quota": "0:20:10"})
    _, count = assert_same(grid, monkeypatch)
    assert (len(grid), count) == (60, 0)
