"""The largest value of each variable, with everything undecided at its least."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from kvplan.kernels.instance import Variable
from kvplan.kernels.moving import Moving
from kvplan.kernels.search.bounds import Bounds
from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.search import Search
from kvplan.models import Problem
from support.instance import search_of, windows
from support.instances import small_problem
from support.micro import micro, one, pool
from support.points import MOST_OPEN, Points


def largest(problem: Problem, kind: str, position: int = 0) -> int | None:
    """The largest value in the only undecided bounds."""
    search = search_of(problem)
    [bounds] = search.starts()
    return search.largest(bounds, Variable(kind, position))


def staged(quota: int, per_token: int = 1, **sections: Any) -> Problem:
    """A prefill of 4 to 40 tokens beside one request of 5 blocks of 10 bytes."""
    staging = [{"name": "s", "per_token": per_token}]
    prefill = {"requested": 40, "min": 4, "step": 4, "staging": staging}
    return micro(quota, prefill=prefill, **one(20), **sections)


@pytest.mark.parametrize(("quota", "blocks"), [(49, None), (50, 5), (59, 5), (60, 6), (109, 10)])
def test_blocks_fill_the_quota_and_not_a_byte_more(quota: int, blocks: int | None) -> None:
    assert largest(micro(quota, **one(20)), "blocks") == blocks


@pytest.mark.parametrize(
    ("fields", "blocks"),
    [
        ({"reserved_blocks": 2}, 8),
        ({"max_blocks": 6}, 6),
        ({"multiple_of": 4}, 8),
        ({"multiple_of": 4, "reserved_blocks": 3}, 4),
        ({"multiple_of": 4, "max_blocks": 7}, 4),
        ({"granule": 30}, 9),
        ({"granule": 64}, 6),
        ({"buffers": [{"bytes": 6, "granule": 20}, {"bytes": 4, "granule": 30}]}, 7),
    ],
)
def test_blocks_under_the_limits_of_their_pool(fields: dict[str, Any], blocks: int) -> None:
    assert largest(micro(100, **one(8), **pool(**fields)), "blocks") == blocks


@pytest.mark.parametrize(
    ("quota", "capacity"), [(9, None), (10, 4), (59, 20), (60, 24), (1000, 77)]
)
def test_capacity_is_token_exact(quota: int, capacity: int | None) -> None:
    assert largest(micro(quota, **one(77, fit="capacity")), "capacity") == capacity


def test_capacity_of_several_alike_requests() -> None:
    assert largest(micro(119, **one(77, count=3, fit="capacity")), "capacity") == 12


@pytest.mark.parametrize(("quota", "count"), [(29, None), (30, 1), (119, 3), (120, 4)])
def test_count_is_bounded_by_the_quota_alone(quota: int, count: int | None) -> None:
    assert largest(micro(quota, **one(12, fit="count")), "count") == count


def test_count_stops_at_what_was_asked() -> None:
    assert largest(micro(1000, **one(12, fit="count", count=3)), "count") == 3


@pytest.mark.parametrize(
    ("quota", "chunk"), [(53, None), (54, 4), (57, 4), (58, 8), (90, 40), (91, 40)]
)
def test_the_chunk_takes_what_is_left(quota: int, chunk: int | None) -> None:
    assert largest(staged(quota), "prefill") == chunk


@pytest.mark.parametrize(("quota", "slots"), [(60, 0), (63, 0), (64, 1), (67, 1), (68, 2)])
def test_slots_take_what_is_left(quota: int, slots: int) -> None:
    problem = micro(quota, **one(20), experts={"slot_bytes": 4, "layers": 1}, consumers=[WEIGHTS])
    assert largest(problem, "experts") == slots


WEIGHTS = {"name": "weights", "bytes": 10}


@pytest.mark.parametrize(("quota", "copies"), [(50, 1), (99, 1), (100, 2), (149, 2), (150, 3)])
def test_copies_are_whole(quota: int, copies: int) -> None:
    assert largest(micro(quota, **one(20)), "copies") == copies


def test_the_tightest_rank_and_phase_rule() -> None:
    ranks = [{"name": "a", "quota": 120}, {"name": "b", "quota": 100}]
    late = {"name": "late", "bytes": {"a": 45}, "phases": ["encode"]}
    assert largest(micro(ranks=ranks, **one(20)), "blocks") == 10
    assert largest(micro(ranks=ranks, consumers=[late], **one(20)), "blocks") == 7


# --- a need that falls as the capacity grows ----------------------------------------------------


def four_windows(least: int, quota: int = 100) -> Problem:
    """Four requests on a live window of 64 and blocks of 32: 2 or 3 blocks of 10 bytes each."""
    request = {"capacity": 500, "count": 4, "fit": "capacity", "min_capacity": least}
    return micro(quota, caches=windows(32, 64), batches=[{"name": "b", "requests": [request]}])


def test_a_larger_capacity_fits_where_the_lower_bound_does_not() -> None:
    """At 97 tokens each holds 3 blocks, at 128, 160, ... 480 only 2 (TensorRT-LLM V2)."""
    assert largest(four_windows(97), "capacity") == 480
    assert largest(four_windows(481), "capacity") is None
    assert largest(four_windows(97, quota=120), "capacity") == 500


def test_a_later_request_may_take_any_capacity_of_its_first_period() -> None:
    """Raising the chunk is possible only because the window's request may lie at 128."""
    prefill = {"requested": 20, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 1}]}
    problem = four_windows(97).model_dump(mode="json", exclude_unset=True)
    both = Problem.model_validate({**problem, "prefill": prefill, "goals": ["prefill"]})
    answer = solve(search_of(both))
    assert answer is not None
    assert answer.exact
    assert (search_of(both).instance.chunks[answer.point.chunk], answer.point.capacities) == (
        20,
        (480,),
    )


def test_nothing_fits_is_none() -> None:
    assert solve(search_of(micro(49, **one(20)))) is None


def test_goals_of_an_answer_have_equal_values_and_bounds() -> None:
    answer = solve(search_of(staged(77, experts={"slot_bytes": 3, "max_slots": 9})))
    assert answer is not None
    assert answer.exact
    assert answer.values == answer.bounds
    assert [int(value) for value in answer.values] == [24, 1, 5]


# --- every variable of random problems against every point ---------------------------------------

SWITCHES: list[dict[str, bool]] = [{}, {"prefix": True}, {"scratch": True}, {"granules": True}]


def variables_of(search: Search) -> list[Variable]:
    """Every variable of an instance."""
    instance = search.instance
    found = [
        Variable("count" if fitted.is_count else "capacity", index)
        for index, fitted in enumerate(instance.fitted)
    ]
    found += [Variable("blocks", index) for index in range(len(instance.pools))]
    found += [Variable("choice", index) for index in range(len(instance.choices))]
    found += [Variable("prefill")] if len(instance.chunks) > 1 else []
    found += [Variable("experts")] if instance.experts is not None else []
    demand = search.demand
    held = [any(demand.given(b, 0)) for b in range(len(instance.batches))]
    return found + [Variable("copies", index) for index, some in enumerate(held) if some]


def is_small(search: Search, bounds: Bounds) -> bool:
    """Whether all points can be tried in a moment."""
    points = 1
    for low, high in zip(bounds.low, bounds.high, strict=True):
        points *= 1 + (MOST_OPEN if high is None else high - low)
    return points <= 1200


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda each: "".join(each) or "any")
@pytest.mark.parametrize("part", range(4))
def test_the_largest_value_of_every_variable_is_the_best_of_all_points(
    part: int, switches: dict[str, bool]
) -> None:
    tried: Counter[str] = Counter()
    for seed in range(30 * part, 30 * part + 30):
        search = search_of(small_problem(seed, constraints=False, **switches))
        points, rng = Points(search.instance), random.Random(seed)
        bounds = rng.choice(search.starts())
        if not is_small(search, bounds):
            continue
        variables = variables_of(search)
        rng.shuffle(variables)
        for variable in variables:
            expected = points.largest(bounds, variable)
            assert search.possible(bounds) == points.possible(bounds)
            found = search.largest(bounds, variable)
            assert found == expected, (seed, variable)
            if found is None:
                break
            tried[variable.kind] += 1
            # What follows is sought with this one at its best, or a little below.
            worse = found - rng.choice((0, 0, 1))
            if variable.kind != "choice" and points.possible(
                search.at_least(bounds, variable, worse)
            ):
                bounds = search.at_least(bounds, variable, worse)
                if worse == found:
                    bounds = search.settled(bounds, variable, found)
    assert {"capacity", "count", "blocks", "prefill", "experts", "copies"} <= {*tried}, tried


@pytest.mark.parametrize("part", range(4))
def test_other_limits_answer_as_a_new_search(part: int) -> None:
    fitting = 0
    for seed in range(25 * part, 25 * part + 25):
        search, rng = search_of(small_problem(seed, constraints=False)), random.Random(seed)
        for _ in range(3):
            share = rng.randint(60, 140)
            budgets = tuple(
                budget._replace(limit_bytes=budget.limit_bytes * share // 100)
                for budget in search.instance.budgets
            )
            instance = search.instance._replace(budgets=budgets)
            limits = [budget.limit_bytes for budget in budgets]
            twin, fresh = search.with_limits(limits, lambda made=instance: made), Search(instance)
            assert twin.instance is instance
            for bounds in fresh.starts():
                for variable in variables_of(fresh):
                    assert twin.largest(bounds, variable) == fresh.largest(bounds, variable), seed
            answer = solve(twin)
            assert answer == solve(fresh), seed
            fitting += answer is not None
        again = search.with_limits(search.limits, lambda own=search.instance: own)
        assert solve(again) == solve(search) == solve(Search(search.instance)), seed
    assert fitting > 20


def test_few_capacities_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two block sizes, four classes of 64 and 2^20 tokens."""
    asked: list[int] = []
    plain = Moving._evaluate

    def noted(self: Moving, value: int, *between: Any) -> Any:
        asked.append(value)
        return plain(self, value, *between)

    monkeypatch.setattr(Moving, "_evaluate", noted)
    caches = [*windows(16, 40), *windows(64, 100)]
    caches.append({"name": "f", "kind": "full", "tokens_per_block": 16})
    problem = micro(400_000, caches=caches, **one(2**20, fit="capacity"))
    assert largest(problem, "capacity") == 639_920
    assert len(asked) < 20


@pytest.mark.parametrize("prefix", [0, 24])
def test_one_search_asked_within_other_bounds(prefix: int) -> None:
    """What is kept of a capacity's needs depends on copies and chunk."""
    flight = {"name": "f", "kind": "window", "window": 9, "keep": "in_flight"}
    flight = {"name": "f", "kind": "full"} if prefix else {**flight, "in_flight": "prefill"}
    request = {"name": "q", "capacity": 90, "history": 86, "fit": "capacity", "min_capacity": 30}
    problem = micro(
        900 if prefix else 270,
        caches=[*windows(4, 30), flight],
        batches=[{"name": "b", "shared_prefix": prefix, "requests": [request]}],
        prefill={"requested": 24, "min": 8, "step": 8},
    )
    search = search_of(problem)
    points, [start] = Points(search.instance), search.starts()
    found = []
    for copies in (1, 2, 3, 4, 1, 3):
        for chunk in (8, 24, 8):
            bounds = search.at_least(start, Variable("copies", 0), copies)
            bounds = search.at_least(bounds, Variable("prefill"), chunk)
            capacity = search.largest(bounds, Variable("capacity", 0))
            assert capacity == points.largest(bounds, Variable("capacity", 0)), (copies, chunk)
            found.append(capacity)
    assert len({*found}) > 1, found
