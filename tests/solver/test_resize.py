"""Plan again for another quota, with fitted requests held."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem, KvplanError, Plan, Problem
from kvplan.solver import oracle, plan
from support.micro import micro, one, pool
from support.solvers import changed

GIB = 2**30
PREFILL = {"requested": 40, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 1}]}


def sizes(answer: Plan) -> list[tuple[int, int, int]]:
    return [(r.capacity, r.history, r.count) for r in answer.requests]


def fitted(quota: int = 100, **sections: Any) -> Problem:
    """A capacity and a count, a chunk and slots, one pool."""
    requests = [
        {"name": "c", "capacity": 20, "history": 18, "fit": "capacity"},
        {"name": "n", "capacity": 4, "fit": "count", "count": 3, "min_count": 2},
    ]
    experts = {"slot_bytes": 2, "max_slots": 20}
    base = {"batches": [{"name": "b", "requests": requests}], "prefill": PREFILL}
    return micro(quota, **{**base, "experts": experts, **sections})


def test_capacities_and_counts_stay_whatever_the_quota() -> None:
    first = plan(fitted(64))
    assert sizes(first) == [(16, 14, 1), (4, 3, 2)]
    assert plan(fitted(1000)).requests[0].capacity == 20
    assert sizes(first.resize(1000)) == sizes(first)
    assert sizes(first.resize(64)) == sizes(first)


def test_the_same_quota_gives_the_same_decisions() -> None:
    first = plan(fitted(97))
    again = first.resize(97)
    assert again.digest == first.digest
    assert again.blocks == first.blocks


def test_chunk_slots_choices_and_fill_are_solved_again() -> None:
    options = [{"name": "x", "bytes": 30}, {"name": "y"}]
    problem = fitted(64, choices=[{"name": "w", "options": options}])
    first = plan(problem)
    assert (first.prefill_chunk, first.expert_slots, first.choices) == (4, 0, {"w": "y"})
    more = first.resize(250)
    assert (more.prefill_chunk, more.expert_slots, more.choices) == (40, 20, {"w": "x"})
    assert more.blocks == {"p": (250 - 30 - 40 - 40) // 10}
    assert more.status == "optimal"


def test_floors_are_held_though_the_chunk_that_asked_for_them_is_not() -> None:
    """The flight of a chunk of 40 needs 12 blocks; a smaller chunk would need fewer."""
    caches = [{"name": "c", "kind": "chunked", "chunk": 8, "in_flight": "prefill"}]
    problem = micro(160, caches=caches, prefill=PREFILL, **one(100))
    first = plan(problem)
    assert (first.floors, first.prefill_chunk) == ({"p": 12}, 40)
    smaller = first.resize(140)
    assert (smaller.floors, smaller.prefill_chunk, smaller.blocks) == ({"p": 12}, 20, {"p": 12})
    assert plan(changed(problem, ranks=[{"name": "r0", "quota": 140}])).prefill_chunk == 32


def test_a_quota_below_the_floors_is_refused_and_the_shortfall_named() -> None:
    first = plan(fitted(97))
    # 8 blocks of the floor and the least chunk of 4 tokens.
    assert first.floors == {"p": 8}
    with pytest.raises(Infeasible) as refusal:
        first.resize(70)
    assert [tuple(short) for short in refusal.value.shortfall] == [
        ("r0", "prefill", 14),
        ("r0", "decode", 10),
    ]
    assert str(refusal.value) == (
        "rank r0 is short by 14 B in prefill\nrank r0 is short by 10 B in decode"
    )


def test_the_granule_of_the_first_quota_is_held() -> None:
    pages = pool(bytes=3 * 2**20, granule="auto")
    first = plan(micro(4 * GIB, **pages))
    assert first.blocks == {"p": 512 * 8 // 3}
    smaller = first.resize(4 * GIB - 1)
    assert smaller.blocks == {"p": 511 * 8 // 3}  # still pages of 8 MiB
    assert plan(micro(4 * GIB - 1, **pages)).blocks == {"p": 1023 * 4 // 3}
    larger = plan(micro(4 * GIB - 1, **pages)).resize("6GiB").resize("6GiB")
    assert larger.blocks == {"p": 1536 * 4 // 3}


def test_quotas_by_rank_and_as_text() -> None:
    ranks = [{"name": "a", "quota": 100}, {"name": "b", "quota": 100}]
    first = plan(micro(ranks=ranks))
    assert [r.quota for r in first.resize({"b": 70}).ranks] == [100, 70]
    assert first.resize({"b": 70}).blocks == {"p": 7}
    assert first.resize({}).blocks == {"p": 10}
    assert first.resize("0.2 KiB").blocks == {"p": 20}  # 204.8 B, rounded down
    assert [r.quota for r in first.resize({"b": 70}).resize({"a": 65}).ranks] == [65, 70]


@pytest.mark.parametrize(
    ("quota", "text"),
    [
        ({"c": 70}, "quota: expected one of a, b, got 'c'"),
        (-1, "quota of rank a: expected bytes of at least 0, got -1"),
        ("12 XB", "quota of rank a: expected bytes such as"),
        (2**63, "quota of rank a: expected bytes below 2^63"),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(quota: Any, text: str) -> None:
    ranks = [{"name": "a", "quota": 100}, {"name": "b", "quota": 100}]
    first = plan(micro(ranks=ranks))
    with pytest.raises(InvalidProblem) as caught:
        first.resize(quota)
    assert str(caught.value).startswith(text)


def test_a_measured_rank_is_resized_like_a_declared_one() -> None:
    memory = {"total": 200, "free": 150, "utilization": 0.5, "peak_torch": 20}
    first = plan(micro(ranks=[{"name": "r0", "memory": memory}]))
    assert first.blocks == {"p": 8}
    second = first.resize(120)
    assert second.blocks == {"p": 12}
    assert second.ranks[0].bound == "declared"


def test_a_plan_that_was_read_from_text_cannot_resize() -> None:
    first = plan(fitted(97))
    read = Plan.model_validate_json(first.model_dump_json())
    assert read.blocks == first.blocks
    with pytest.raises(KvplanError, match="read from a file"):
        read.resize(1000)


def test_every_solver_resizes_alike() -> None:
    found = {plan(fitted(97), solver=e).resize(140).digest for e in ("auto", "cp-sat", "bisect")}
    assert len(found) == 1


def test_the_oracle_accepts_a_resized_plan() -> None:
    problem = fitted(64)
    second = plan(problem).resize(140)
    held = changed(problem, ranks=[{"name": "r0", "quota": 140}])
    requests = [
        {"name": "c", "capacity": 16, "history": 14},
        {"name": "n", "capacity": 4, "count": 2},
    ]
    given = changed(held, batches=[{"name": "b", "requests": requests}])
    assert {v.rule for v in oracle.check(given, second)} <= {"figures"}
    assert plan(given).blocks == second.blocks


def test_a_resize_under_constraints_on_what_was_fitted() -> None:
    limit = [{"terms": {"capacity:c": 1, "count:n": 1, "prefill": "1/4"}, "max": 20}]
    first = plan(fitted(200, constraints=limit))
    assert sizes(first) == [(17, 15, 1), (4, 3, 2)]
    assert first.prefill_chunk == 4
    again = first.resize(300)
    assert (sizes(again), again.prefill_chunk) == (sizes(first), 4)


def test_a_resize_keeps_the_other_members_of_a_weighted_goal_in_their_place() -> None:
    goals = [{"maximize": {"capacity:c": 1, "prefill": 1}}, "experts"]
    first = plan(fitted(120, goals=goals))
    again = first.resize(120)
    assert (again.prefill_chunk, again.expert_slots) == (first.prefill_chunk, first.expert_slots)


def test_a_resize_keeps_copies_as_a_fill() -> None:
    batch = {"name": "b", "requests": [{"name": "c", "capacity": 20, "fit": "capacity"}]}
    problem = micro(60, batches=[batch], fill={"batch": "b"})
    first = plan(problem)
    assert (first.copies, first.blocks) == (1, {"p": 6})
    assert first.resize(99).copies == 1
    assert first.resize(100).copies == 2
