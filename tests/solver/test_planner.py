"""Planner: other quotas answered as `plan` would, row for row, and checked."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from kvplan.kernels.instance import Instance
from kvplan.kernels.search.search import Search
from kvplan.models import CheckFailed, Infeasible, InvalidProblem, Plan, Problem
from kvplan.solver import Planner, plan
from kvplan.solver.formulate.compiled import Compiled
from support.cases import load
from support.instance import windows
from support.micro import micro, one
from support.straight import straight_problem


def outcome(call: Any) -> Any:
    """A plan as data, or what its refusal says."""
    try:
        return call().model_dump(mode="json")
    except Infeasible as refusal:
        return str(refusal), refusal.shortfall


def requoted(problem: Problem, quotas: dict[str, int]) -> Problem:
    data = problem.model_dump(mode="json", exclude_unset=True)
    ranks = [{**rank, "quota": quotas[rank["name"]]} for rank in data["ranks"]]
    return Problem.model_validate({**data, "ranks": ranks})


@pytest.mark.parametrize("part", range(4))
def test_other_quotas_give_the_plans_of_other_problems(part: int) -> None:
    fitting = 0
    for seed in range(100 * part, 100 * part + 100):
        try:
            problem = straight_problem(seed)
            planner = Planner(problem)
        except InvalidProblem:
            continue
        rng = random.Random(seed)
        for _ in range(3):
            quotas = {rank.name: rng.randint(0, 9000) for rank in problem.ranks}
            mine = outcome(lambda: planner.plan(quota=quotas))  # noqa: B023
            theirs = outcome(lambda: plan(requoted(problem, quotas)))  # noqa: B023
            assert mine == theirs, seed
            fitting += isinstance(mine, dict)
    assert fitting > 50


def test_a_plan_for_another_quota_is_written_for_that_quota() -> None:
    problem = micro(caches=windows(9, 30), **one(400, fit="capacity"))
    planner = Planner(problem)
    first, second = planner.plan(quota=300), planner.plan(quota=200)
    assert [found.ranks[0].quota for found in (first, second)] == [300, 200]
    assert all(rank.used <= rank.quota for found in (first, second) for rank in found.ranks)
    again = first.resize(250)
    assert isinstance(again, Plan)
    assert again.ranks[0].quota == 250


def test_a_wrong_answer_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check looks at the quota that was asked for, not at the problem's."""
    planner = Planner(micro(**one(400, fit="capacity")))
    real = Search.with_limits

    def roomier(self: Search, limits: Sequence[int], write: Callable[[], Instance]) -> Search:
        return real(self, [limit + 50 for limit in limits], write)

    monkeypatch.setattr(Search, "with_limits", roomier)
    with pytest.raises(CheckFailed, match="exceeds its quota"):
        planner.plan(quota=60)


def test_other_quotas_are_written_out_where_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problem and integers at a quota are made when something beside the decisions is read."""
    planner = Planner(micro(**one(400, fit="capacity")))
    planner.plan(quota=70)
    written: list[int] = []
    real = Compiled._moved

    def noted(self: Compiled, quotas: Sequence[int]) -> Instance:
        written.extend(quotas)
        return real(self, quotas)

    monkeypatch.setattr(Compiled, "_moved", noted)
    answer = planner.plan(quota=60)
    assert answer.blocks == {"p": 6}
    assert written == []
    assert answer.ranks[0].quota == 60
    assert written == [60]


def test_a_rank_that_is_left_out_stays_as_it_was_measured() -> None:
    """Its headroom rows hold on: 150 of 500 physical bytes are staging, in every phase."""
    memory = {"total": 800, "free": 500, "utilization": "1/2", "prefill_headroom": "from_staging"}
    problem = micro(
        ranks=[{"name": "m", "memory": memory}, {"name": "r1", "quota": 700}],
        prefill={"requested": 8, "chunks": [8], "staging": [{"name": "s", "base": 150}]},
        consumers=[{"name": "graphs", "bytes": {"m": 250}, "phases": ["capture"]}],
    )
    planner, first = Planner(problem), plan(problem)
    kept = planner.plan(quota={"r1": 600})
    assert first.blocks == kept.blocks == {"p": 10}  # 100 + 250 + 150 bytes
    assert kept.ranks[0] == first.ranks[0]
    assert kept == first.resize({"r1": 600})
    assert planner.plan(quota={"r1": 200}).blocks == {"p": 5}  # 50 + 150 bytes in prefill
    declared = planner.plan(quota=400)
    assert declared.blocks == {"p": 15}  # 150 + 250 bytes
    assert {rank.bound for rank in declared.ranks} == {"declared"}
    assert planner.plan(quota={"m": 400, "r1": 600}).ranks[0].bound == "declared"


def test_shapes_of_many_granules_are_not_kept_for_ever() -> None:
    """Eight ranks whose "auto" granules differ freely have 390,625 of them."""
    problem = load("trtllm_fit_to_quota").model_dump(mode="json", exclude_unset=True)
    ranks = [{"name": f"r{k}", "quota": "40GiB"} for k in range(8)]
    planner, rng = Planner(Problem.model_validate(problem | {"ranks": ranks})), random.Random(1)
    for _ in range(200):
        quotas = {f"r{k}": 2 ** rng.randint(30, 34) for k in range(8)}
        planner.plan(quota=quotas)
    assert len(planner._compiled) <= 64


SHARED = {
    "pools": [{"name": "p", "bytes": 10}, {"name": "q", "bytes": 7}],
    "caches": [
        {"name": "c", "pool": "p", "kind": "full"},
        {"name": "d", "pool": "q", "kind": "window", "window": 9},
    ],
    **one(100, fit="capacity"),
}


def test_a_new_ratio_gives_the_plan_of_a_problem_with_these_shares() -> None:
    planner = Planner(micro(900, **SHARED))
    for number in range(12):  # more than are kept
        shares = {"p": f"{number + 1}/20", "q": "2/5"}
        for quota in (900, 700, 300):
            theirs = plan(micro(quota, fill={"shares": shares}, **SHARED))
            assert planner.plan(quota=quota, shares=MappingProxyType(shares)) == theirs
    assert planner.plan(shares={"p": "1/2", "q": "1/2"}).blocks == {"p": 45, "q": 64}
    assert planner.plan() == plan(micro(900, **SHARED))


@pytest.mark.parametrize(
    ("shares", "fault"),
    [
        ({"r": 1}, "shares: expected one of p, q, got 'r'"),
        ({"p": 2}, "shares.p: expected a share from 0 to 1, got 2"),
        ({"p": "0.9", "q": "0.2"}, "shares: expected shares that sum to at most 1, got 11/10"),
        ({}, "shares: expected at least one pool, got none"),
        (3, "shares: expected a mapping, got 3"),
    ],
)
def test_shares_that_make_no_sense_are_refused(shares: Any, fault: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        Planner(micro(900, **SHARED)).plan(shares=shares)
    assert str(caught.value) == fault
