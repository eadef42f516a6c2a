"""Nothing fits: what is short, on which rank and phase, and the budget there."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from support.instance import windows
from support.instances import small_problem
from support.micro import cache, micro, one, pool
from support.solvers import SOLVERS, refusal_of, refused


def short(problem: Problem) -> list[tuple[str, str, int]]:
    return [(entry.rank, entry.phase, entry.bytes) for entry in refused(problem).shortfall]


@pytest.mark.parametrize(("quota", "missing"), [(89, 1), (0, 90)])
def test_the_missing_bytes_are_exact(quota: int, missing: int) -> None:
    problem = micro(quota, **one(33))
    assert short(problem) == [("r0", "prefill", missing), ("r0", "decode", missing)]
    assert plan(micro(quota + missing, **one(33))).blocks == {"p": 9}


def test_each_rank_and_phase_has_its_own_line() -> None:
    ranks = [{"name": "a", "quota": 89}, {"name": "b", "quota": 70}, {"name": "c", "quota": 95}]
    late = [{"name": "late", "bytes": 6, "phases": ["decode", "encode"]}]
    refusal = refused(micro(ranks=ranks, consumers=late, **one(33)))
    assert [tuple(entry) for entry in refusal.shortfall] == [
        ("a", "prefill", 1),
        ("a", "decode", 7),
        ("a", "encode", 7),
        ("b", "prefill", 20),
        ("b", "decode", 26),
        ("b", "encode", 26),
        ("c", "decode", 1),
        ("c", "encode", 1),
    ]
    assert refusal.reasons[0] == "rank a is short by 1 B in prefill"
    assert str(refusal).splitlines() == [*refusal.reasons]


def test_large_figures_are_written_twice() -> None:
    problem = micro(2**30, **pool(min_blocks=3, bytes=2**30))
    assert refused(problem).reasons == (
        "rank r0 is short by 2_147_483_648 B (2.00 GiB) in prefill",
        "rank r0 is short by 2_147_483_648 B (2.00 GiB) in decode",
    )


def test_everything_elastic_is_at_its_floor_and_its_least_demand() -> None:
    problem = micro(
        39,
        prefill={"requested": 40, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 1}]},
        experts={"slot_bytes": 3, "min_slots": 2, "max_slots": 9},
        choices=[{"name": "w", "options": [{"name": "x", "bytes": 25}, {"name": "y", "bytes": 1}]}],
        **one(77, fit="capacity", min_capacity=9),
    )
    refusal = refused(problem)
    # 3 blocks, 2 slots, option y; 4 tokens of staging in prefill alone.
    assert [tuple(entry) for entry in refusal.shortfall] == [("r0", "prefill", 2)]
    [rank] = refusal.ranks
    assert {line.consumer: line.bytes for line in rank.ledger} == {
        "quota": 39,
        "p": 30,
        "experts": 6,
        "s": 4,
        "w=y": 1,
    }
    assert (rank.used, rank.slack) == (41, -2)
    assert rank.phases == {"load": 1, "prefill": 41, "decode": 37}


def test_lent_slots_are_at_the_least_that_may_stay() -> None:
    experts = {"slot_bytes": 10, "min_slots": 9, "lend": {"keep": 2, "fraction": 1}}
    prefill = {"requested": 4, "staging": [{"name": "s", "base": 85}]}
    refusal = refused(micro(100, experts=experts, prefill=prefill))
    assert [tuple(entry) for entry in refusal.shortfall] == [("r0", "prefill", 5)]
    lines = [line for line in refusal.ranks[0].ledger if line.consumer == "experts"]
    assert [(line.bytes, line.note) for line in lines] == [(90, ""), (20, "7 slots lent")]


def test_of_a_live_window_the_cheapest_capacity_is_what_is_short() -> None:
    """Four requests at 97 tokens hold 12 blocks, at 128 only 8."""
    request = {"capacity": 500, "count": 4, "fit": "capacity", "min_capacity": 97}
    batches = [{"name": "b", "requests": [request]}]
    problem = micro(75, caches=windows(32, 64), batches=batches)
    assert short(problem) == [("r0", "prefill", 5), ("r0", "decode", 5)]


def test_a_pool_that_may_not_grow_is_named() -> None:
    refusal = refused(micro(1000, **one(33), **pool(max_blocks=8)))
    assert refusal.reasons == ("pool p needs 9 usable blocks, max_blocks is 8",)
    assert refusal.shortfall == ()
    both = refused(micro(80, **one(33), **pool(max_blocks=8)))
    assert both.reasons == (
        "pool p needs 9 usable blocks, max_blocks is 8",
        "rank r0 is short by 10 B in prefill",
        "rank r0 is short by 10 B in decode",
    )


def test_a_multiple_beyond_the_limit_of_a_pool() -> None:
    refusal = refused(micro(1000, **one(33), **pool(max_blocks=11, multiple_of=4)))
    assert refusal.reasons == ("pool p needs 12 usable blocks, max_blocks is 11",)


def test_a_load_that_does_not_fit_is_short_in_that_phase_alone() -> None:
    arena = [{"name": "arena", "bytes": 101, "phases": ["load"]}]
    assert short(micro(100, consumers=arena)) == [("r0", "load", 1)]


def test_a_quota_below_zero_is_short_everywhere() -> None:
    memory = {"total": 100, "utilization": 0.5, "peak_torch": 70}
    problem = micro(ranks=[{"name": "r0", "memory": memory}])
    assert short(problem) == [("r0", phase, 20) for phase in ("load", "prefill", "decode")]
    assert refused(problem).ranks[0].quota == -20


def test_constraints_that_cannot_hold_together() -> None:
    ties = [{"terms": {"blocks:p": 1}, "min": 5}, {"terms": {"blocks:p": 2}, "max": 9}]
    refusal = refused(micro(1000, constraints=ties))
    assert refusal.reasons == ("the linear constraints cannot hold together within the quotas",)


def test_a_request_of_the_least_count_that_does_not_fit() -> None:
    assert short(micro(50, **one(12, fit="count", min_count=2)))[0] == ("r0", "prefill", 10)


def test_a_headroom_from_staging_is_short_once_a_phase() -> None:
    memory = {"total": 1000, "free": 500, "utilization": 1, "prefill_headroom": "from_staging"}
    problem = micro(
        ranks=[{"name": "r0", "memory": memory}],
        prefill={"requested": 4, "staging": [{"name": "s", "base": 100}]},
        **pool(min_blocks=60),
    )
    assert short(problem) == [("r0", "prefill", 200), ("r0", "decode", 200)]


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_largest_problem_without_room(solver: Any) -> None:
    problem = micro(2**63 - 1, **one(2**62, count=2**40), **cache(kind="full", groups=2**40))
    with pytest.raises(Infeasible, match="is short by"):
        plan(problem, solver=solver)


@pytest.mark.parametrize("seed", range(80))
def test_with_the_missing_bytes_the_same_problem_fits(seed: int) -> None:
    """Alone short of bytes on declared ranks, granules given: that much more quota is enough."""
    data = small_problem(seed, constraints=False, memory=False).model_dump(
        mode="json", exclude_unset=True
    )
    data["pools"] = [_given_granules(entry) for entry in data["pools"]]
    problem = Problem.model_validate(data)
    refusal = refusal_of(problem)
    if refusal is None or any(reason.startswith("pool") for reason in refusal.reasons):
        return
    missing: dict[str, int] = {}
    for rank, _, count in refusal.shortfall:
        missing[rank] = max(missing.get(rank, 0), count)
    assert missing
    for rank in data["ranks"]:
        rank["quota"] += missing.get(rank["name"], 0)
    assert refusal_of(Problem.model_validate(data)) is None


def _given_granules(entry: dict[str, Any]) -> dict[str, Any]:
    buffers = [
        {**buffer, "granule": 4096 if buffer.get("granule") == "auto" else buffer.get("granule", 1)}
        for buffer in entry.get("buffers", ())
    ]
    fixed: dict[str, Any] = {"buffers": buffers} if buffers else {}
    if entry.get("granule") == "auto":
        fixed["granule"] = 4096
    return {**entry, **fixed}
