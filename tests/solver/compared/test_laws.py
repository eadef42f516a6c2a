"""Metamorphic laws: how plans of related problems are related."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from kvplan.models import Plan, Problem
from kvplan.solver import plan
from support import laws
from support.draw import Data
from support.instances import problems
from support.laws import decisions, goal_values, solved

SEEDS = st.integers(0, 2**32 - 1)


@given(problems(memory=False), st.lists(st.integers(0, 60), min_size=3, max_size=3))
def test_more_quota_never_makes_an_earlier_goal_worse(data: Data, more: list[int]) -> None:
    """With granules fixed every plan stays legal, so the goals' values in order cannot fall."""
    less = laws.without_auto(data)
    larger = deepcopy(less)
    for rank, percent in zip(larger["ranks"], more, strict=False):
        rank["quota"] += rank["quota"] * percent // 100
    before, after = solved(less), solved(larger)
    if before is not None:
        assert after is not None
        assert goal_values(after) >= goal_values(before)


@given(problems())
def test_names_carry_no_meaning(data: Data) -> None:
    before, after = solved(data), solved(laws.renamed(data, lambda name: f"{name[::-1]}:\u00fc -"))
    assert decisions(before) == decisions(after)
    if before is not None:
        assert after is not None
        assert [r.phases for r in before.ranks] == [r.phases for r in after.ranks]
        assert [*after.choices.values()] == [f"{n[::-1]}:\u00fc -" for n in before.choices.values()]


@given(problems(), SEEDS)
def test_the_order_of_ranks_caches_and_bytes_carries_no_meaning(data: Data, seed: int) -> None:
    shuffle = Random(seed).shuffle
    turned = deepcopy(data)
    for section in ("ranks", "caches", "consumers", "constraints"):
        shuffle(turned.get(section, []))
    shuffle(turned.get("prefill", {}).get("staging", []))
    for pool in turned["pools"]:
        shuffle(pool.get("buffers", []))
    before, after = solved(data), solved(turned)
    assert decisions(before) == decisions(after)
    if before is not None:
        assert after is not None
        assert before.digest == after.digest
        assert {r.name: r.phases for r in before.ranks} == {r.name: r.phases for r in after.ranks}


@given(problems(), SEEDS)
def test_the_order_of_requests_that_are_not_fitted_carries_no_meaning(
    data: Data, seed: int
) -> None:
    shuffle = Random(seed).shuffle
    turned = deepcopy(data)
    fitted = [r for batch in data["batches"] for r in batch["requests"] if "fit" in r]
    for batch in turned["batches"]:
        free = [request for request in batch["requests"] if "fit" not in request]
        shuffle(free)
        batch["requests"] = [r if "fit" in r else free.pop() for r in batch["requests"]]
    if len(fitted) < 2:
        shuffle(turned["batches"])
        for batch in turned["batches"]:
            shuffle(batch["requests"])
    assert decisions(solved(data)) == decisions(solved(turned))


@given(problems(constraints=False, weighted=False), SEEDS)
def test_the_order_of_pools_carries_no_meaning_where_fill_names_its_own(
    data: Data, seed: int
) -> None:
    assume(data.get("fill") is not None)
    assume("batch" not in data["fill"])
    turned = deepcopy(data)
    Random(seed).shuffle(turned["pools"])
    before, after = solved(data), solved(turned)
    assert (before and before.digest) == (after and after.digest)


@given(problems(memory=False), st.integers(2, 999_983))
def test_k_times_the_bytes_give_the_same_counts(data: Data, k: int) -> None:
    """Rates of half a byte are made whole first, since what is left of a byte is rounded."""
    whole = laws.scaled(laws.without_auto(data), 2)
    before, after = solved(whole), solved(laws.scaled(whole, k))
    assert decisions(before) == decisions(after)
    if before is not None:
        assert after is not None
        for small, large in zip(before.ranks, after.ranks, strict=True):
            assert (large.quota, large.used, large.slack) == (
                k * small.quota,
                k * small.used,
                k * small.slack,
            )
            assert [line.bytes for line in large.ledger] == [k * x.bytes for x in small.ledger]


@given(problems())
def test_a_request_of_even_count_is_two_of_half_of_it(data: Data) -> None:
    twice, halves = deepcopy(data), deepcopy(data)
    for batch in twice["batches"]:
        for request in batch["requests"]:
            if "fit" not in request:
                request["count"] = 2 * request.get("count", 1)
    for batch in halves["batches"]:
        extra = [{**r, "name": f"{r['name']}'"} for r in batch["requests"] if "fit" not in r]
        batch["requests"] += extra
    before, after = solved(twice), solved(halves)
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert before.blocks == after.blocks
        assert before.floors == after.floors
        assert goal_values(before) == goal_values(after)
        assert before.expert_slots_in_prefill == after.expert_slots_in_prefill


@given(problems())
def test_groups_are_as_many_alike_caches(data: Data) -> None:
    apart = deepcopy(data)
    apart["caches"] = [
        {**cache, "name": f"{cache['name']}.{number}", "groups": 1}
        for cache in data["caches"]
        for number in range(cache.get("groups", 1))
    ]
    assert decisions(solved(data)) == decisions(solved(apart))


@given(problems(shards=True))
def test_shards_are_longer_blocks(data: Data) -> None:
    longer = deepcopy(data)
    for cache in longer["caches"]:
        tokens = cache.get("tokens_per_block", data["tokens_per_block"])
        cache["tokens_per_block"] = tokens * cache.pop("shards", 1)
    assert decisions(solved(data)) == decisions(solved(longer))


@given(problems(), st.integers(0, 9))
def test_a_further_rank_like_another_changes_nothing(data: Data, pick: int) -> None:
    index = pick % len(data["ranks"])
    before, after = solved(data), solved(laws.with_twin(data, index))
    assert decisions(before) == decisions(after)
    if before is not None:
        assert after is not None
        assert before.digest == after.digest
        assert after.ranks[-1].phases == before.ranks[index].phases


@given(problems(stages=False), st.integers(0, 9))
def test_without_a_rank_no_earlier_goal_is_worse(data: Data, pick: int) -> None:
    assume(len(data["ranks"]) > 1)
    before = solved(data)
    after = solved(laws.without_rank(data, pick % len(data["ranks"])))
    if before is not None:
        assert after is not None
        assert goal_values(after) >= goal_values(before)


@given(problems(), st.sampled_from([None, ["load"], ["prefill", "capture"], ["encode"]]))
def test_a_consumer_without_bytes_changes_nothing(data: Data, phases: list[str] | None) -> None:
    idle: dict[str, Any] = {"name": "idle", "bytes": 0}
    idle |= {"phases": phases} if phases else {}
    with_idle = {**data, "consumers": [*data.get("consumers", ()), idle]}
    before, after = solved(data), solved(with_idle)
    assert decisions(before) == decisions(after)


@given(problems(constraints=False, weighted=False))
def test_a_resize_to_the_same_quotas_decides_the_same(data: Data) -> None:
    answer = solved(data)
    assume(answer is not None)
    assert answer is not None
    again = answer.resize({})
    assert again.digest == answer.digest
    assert again.floors == answer.floors
    assert again.resize({}).digest == answer.digest


@given(problems(constraints=False, weighted=False))
def test_what_was_found_written_in_as_given_gives_the_same_plan(data: Data) -> None:
    answer = solved(data)
    assume(answer is not None)
    assert answer is not None
    given_now = solved(laws.with_found(data, answer))
    assert given_now is not None
    assert given_now.digest == answer.digest


@given(problems())
def test_a_lower_bound_at_what_was_found_changes_nothing(data: Data) -> None:
    answer = solved(data)
    assume(answer is not None)
    assert answer is not None
    bounded = deepcopy(data)
    rows = iter(answer.requests)
    for batch in bounded["batches"]:
        for request in batch["requests"]:
            row = next(rows)
            if request.get("fit") == "count":
                request["min_count"] = row.count
            elif request.get("fit") == "capacity" and row.reduced:
                request["min_capacity"] = row.capacity
    assert decisions(solved(bounded)) == decisions(answer)


@given(problems())
def test_a_plan_goes_through_json_unchanged(data: Data) -> None:
    answer = solved(data)
    assume(answer is not None)
    assert answer is not None
    read = Plan.model_validate_json(answer.model_dump_json())
    assert read.model_dump() == answer.model_dump()
    assert read.model_dump(mode="json") == answer.model_dump(mode="json")


@given(problems())
def test_a_problem_goes_through_json_and_gives_the_same_plan(data: Data) -> None:
    problem = Problem.model_validate(data)
    written = problem.model_dump_json(exclude_unset=True)
    before, after = solved(data), solved(Problem.model_validate_json(written).model_dump())
    assert decisions(before) == decisions(after)


@given(problems(constraints=False))
def test_the_same_question_gets_the_same_answer(data: Data) -> None:
    problem = Problem.model_validate(data)
    answer = solved(data)
    assume(answer is not None)
    assert answer is not None
    assert plan(problem, solver="cp-sat").digest == answer.digest
    assert plan(problem).model_dump() == plan(problem).model_dump()
