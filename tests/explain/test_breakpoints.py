"""Break-points: exact on either side, as plans at other quotas show."""

from __future__ import annotations

import os
import random
from fractions import Fraction
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from kvplan.solver.explain import Explained, explain
from kvplan.solver.explain.sensitivity.break_points import EVERY, BreakPoint
from support.cases import CASES, load
from support.instances import random_problem

GIB, MIB = 2**30, 2**20
Values = dict[str, Fraction] | None

STRIDE = 1 if os.environ.get("CI") else 2
"""Locally every second problem."""


def at_quotas(data: dict[str, Any], rank: str, more_bytes: int) -> Values:
    """Goal values with more (or fewer) bytes on a rank, or on every one; None: nothing fits."""
    ranks = [
        {**each, "quota": each["quota"] + more_bytes * (rank in (EVERY, each["name"]))}
        for each in data["ranks"]
    ]
    if any(each["quota"] < 0 for each in ranks):
        return None
    try:
        answer = plan(Problem.model_validate({**data, "ranks": ranks}))
    except Infeasible:
        return None
    return {entry.goal: entry.value for entry in answer.proof.bound}


def first_values(values: Values, goals: int) -> list[Fraction] | None:
    return None if values is None else list(values.values())[:goals]


def check_point(data: dict[str, Any], now: Values, point: BreakPoint, draw: random.Random) -> None:
    """At the point the named goals change; a byte before, and anywhere nearer, those do not."""
    assert now is not None
    there = at_quotas(data, point.rank, point.bytes)
    expected = {} if there is None else {g: v for g, v in there.items() if v != now[g]}
    assert {change.goal: change.after for change in point.changes} == expected
    assert (there is None) == (not point.changes)
    names = list(now)
    goals = names.index(point.changes[0].goal) + 1 if point.changes else 0
    sign = 1 if point.bytes > 0 else -1
    far = abs(point.bytes)
    for nearer in {far - 1, *(draw.randrange(far) for _ in range(6))}:
        before = at_quotas(data, point.rank, sign * nearer)
        assert first_values(before, goals) == first_values(now, goals), (point, nearer)


@pytest.mark.parametrize(
    ("start", "seeds", "weighted"),
    [(0, 40, False), (40, 40, False), (80, 40, False), (121, 7, True)],
)
def test_break_points_of_random_problems_are_exact(start: int, seeds: int, weighted: bool) -> None:
    seen = 0
    for seed in range(start, start + seeds, STRIDE):
        data = random_problem(seed, memory=False, constraints=False, weighted=weighted)
        now = at_quotas(data, EVERY, 0)
        if now is None or len(set(now)) < len(now):
            continue
        found = explain(Problem.model_validate(data))
        seen += 1
        for point in found.break_points:
            check_point(data, now, point, random.Random(seed))
    assert seen >= seeds // (4 * STRIDE)


@pytest.mark.parametrize("name", sorted(CASES))
def test_break_points_of_real_cases_are_exact(name: str) -> None:
    problem = load(name)
    ranks = [
        {"name": rank.name, "stage": rank.stage, "quota": rank.quota_bytes}
        for rank in problem.ranks
    ]
    data = problem.model_dump(mode="json", exclude_unset=True) | {"ranks": ranks}
    found = explain(Problem.model_validate(data))
    now = at_quotas(data, EVERY, 0)
    assert found.break_points
    for point in found.break_points:
        check_point(data, now, point, random.Random(1))


def lines(found: Explained) -> list[tuple[str, int, str, str]]:
    return [
        (point.rank, point.bytes, change.goal, str(change.after))
        for point in found.break_points
        for change in point.changes[:1]
    ]


def test_the_card_of_strata_says_what_it_hangs_on() -> None:
    slot = 2_330_461
    found = explain(load("strata_765"))
    more, fewer, chunk, nothing = found.break_points
    assert more.changes == (("experts", 3565, 3566),)
    assert fewer.changes == (("experts", 3565, 3564),)
    assert more.bytes - fewer.bytes == slot + 1
    assert [change.goal for change in chunk.changes] == ["prefill", "experts"]
    assert nothing.changes == ()
    gained = (GIB + slot - more.bytes) // slot
    assert found.worth[0].changes == (("experts", 3565, 3565 + gained),)


def test_a_granule_step_is_looked_at_from_both_sides() -> None:
    """At 2 GiB pages of 4 MiB hold 681 blocks of 3 MiB; a byte less, with 2 MiB pages, 682."""
    data = {
        "ranks": [{"name": "r0", "quota": 2 * GIB}],
        "pools": [{"name": "kv", "bytes": 3 * MIB, "granule": "auto"}],
        "caches": [{"name": "full", "kind": "full"}],
        "consumers": [{"name": "w", "bytes": MIB}],
    }
    found = explain(Problem.model_validate(data))
    assert lines(found)[:2] == [
        ("r0", MIB, "blocks:kv", "682"),
        ("r0", -1, "blocks:kv", "682"),
    ]
    less = [{"name": "r0", "quota": 2 * GIB - 1}]
    found = explain(Problem.model_validate({**data, "ranks": less}))
    assert lines(found)[0] == ("r0", 1, "blocks:kv", "681"), "more quota holds less"


def test_one_rank_stands_for_those_that_are_alike_and_all_are_moved_too() -> None:
    problem = load("atom_llama3_8b_tp2")
    found = explain(problem)
    assert found.groups == {"tp0": ("tp0", "tp1")}
    ranks = {point.rank for point in found.break_points}
    assert ranks == {"tp0", EVERY}
    assert all(point.bytes < 0 for point in found.break_points if point.rank == "tp0")
    worth = {entry.rank: entry.changes for entry in found.worth}
    assert worth["tp0"] == ()
    assert worth[EVERY][0].after - worth[EVERY][0].before == 109_630 - 107_644


def test_an_earlier_goal_may_cost_a_later_one() -> None:
    found = explain(load("kimi_k3_trade"))
    sequence = next(p for p in found.break_points if p.changes[0].goal == "count:sequence")
    gained, lost = sequence.changes
    assert gained.after - gained.before == 1
    assert lost.goal == "blocks:paged"
    assert lost.after < lost.before


def test_an_infeasible_problem_raises_its_refusal() -> None:
    with pytest.raises(Infeasible) as caught:
        explain(load("strata_765", "ranks.gpu.quota=5GiB"))
    assert caught.value.conflict
