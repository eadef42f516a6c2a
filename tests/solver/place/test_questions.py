"""Other questions about a problem with a placement: planner, explain, explore, ranks, refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kvplan import explore
from kvplan.models import Infeasible, InvalidProblem, Plan, Problem
from kvplan.models.measured.local import LocalView
from kvplan.solver import Planner, oracle, plan
from kvplan.solver.agree import plan_together
from kvplan.solver.agree.threads import Hub
from kvplan.solver.explain import explain
from kvplan.solver.frontier import frontier
from kvplan.solver.pictures.html_report import html_report
from kvplan.solver.report import explanation_of
from kvplan.solver.report.plain_text import plain_text
from kvplan.solver.verify import violations
from support.placement import small_mixture

RANKS = ("gpu0", "gpu1", "host")


def moved(problem: Problem, **more: int) -> Problem:
    """The problem with so many bytes more on some ranks."""
    ranks = [
        rank.model_copy(update={"quota": rank.quota_bytes + more.get(rank.name, 0)})
        for rank in problem.ranks
    ]
    return problem.model_copy(update={"ranks": tuple(ranks)})


@pytest.fixture(scope="module")
def asked() -> Problem:
    return Problem.model_validate(small_mixture())


def decided(answer: Plan) -> Any:
    return answer.digest, answer.placement


@pytest.mark.parametrize("quota", [None, 3_000, {"gpu0": 2_500}, {"gpu1": 900, "host": 9_000}])
def test_a_planner_plans_as_a_problem_of_its_own(asked: Problem, quota: Any) -> None:
    """Also where the last answer is a guess for this one."""
    planner = Planner(asked)
    for each in (quota, {"gpu0": 1_700}, quota):
        of = {} if each is None else each if isinstance(each, dict) else dict.fromkeys(RANKS, each)
        ranks = [
            rank.model_copy(update={"quota": of.get(rank.name, rank.quota_bytes)})
            for rank in asked.ranks
        ]
        alone = asked.model_copy(update={"ranks": tuple(ranks)})
        assert decided(planner.plan(quota=each)) == decided(plan(alone))


def test_a_planner_has_no_shares_of_placed_pools(asked: Problem) -> None:
    with pytest.raises(InvalidProblem, match="shares: expected none beside place"):
        Planner(asked).plan(shares={"kv": 0.5})


def test_a_resize_holds_the_placement(asked: Problem) -> None:
    """Weights stay where they are; a byte less than they and the context take is refused."""
    answer = plan(asked)
    slack = {rank.name: rank.slack for rank in answer.ranks}
    quotas = {rank.name: rank.quota - slack[rank.name] for rank in answer.ranks}
    assert answer.resize(quotas).requests[0].capacity == answer.requests[0].capacity
    with pytest.raises(Infeasible, match="rank gpu0 is short by 1 B"):
        answer.resize({**quotas, "gpu0": quotas["gpu0"] - 1})


def test_explain_names_the_nearest_quotas(asked: Problem) -> None:
    """A byte before each point the answer is as now; at it some goal differs, as it says."""
    explained = explain(asked)
    now = figures(explained.plan)
    assert {point.rank for point in explained.break_points} >= set(RANKS)
    for point in explained.break_points:
        names = RANKS if point.rank == "every rank" else (point.rank,)
        there = try_plan(moved(asked, **dict.fromkeys(names, point.bytes)))
        if not point.changes:
            assert there is None
            continue
        assert there is not None
        told = {change.goal: change.after for change in point.changes}
        assert {name: value for name, value in figures(there).items() if value != now[name]} == told
        step = 1 if point.bytes > 0 else -1
        before = try_plan(moved(asked, **dict.fromkeys(names, point.bytes - step)))
        assert before is not None
        first = next(iter(told))
        assert figures(before)[first] == now[first]
    text = plain_text(explanation_of(explained, asked))
    assert "where the answer changes next" in text
    assert "picoseconds a token" in text


def figures(answer: Plan) -> dict[str, int]:
    assert answer.placement is not None
    assert answer.placement.picoseconds is not None
    return {
        "capacity:r": answer.requests[0].capacity,
        "picoseconds a token": answer.placement.picoseconds,
    }


def try_plan(problem: Problem) -> Plan | None:
    try:
        return plan(problem)
    except Infeasible:
        return None


def test_explain_refuses_as_plan_does(asked: Problem) -> None:
    with pytest.raises(Infeasible, match="no placement fits"):
        explain(moved(asked, host=1 - asked.ranks[2].quota_bytes))


def test_explore_plans_each_row(asked: Problem) -> None:
    table = explore(asked, {"ranks.gpu0.quota": [1, 1_500, 2_500], "ranks.host.quota": [1, 9_000]})
    assert len(table) == 6
    statuses = set()
    for _, row in table.iterrows():
        more = {name: int(row[f"ranks.{name}.quota"]) for name in ("gpu0", "host")}
        quotas = {rank.name: rank.quota_bytes for rank in asked.ranks}
        answer = try_plan(moved(asked, **{n: more[n] - quotas[n] for n in more}))
        statuses.add(row["status"])
        if answer is None:
            assert row["status"] == "infeasible"
            continue
        assert answer.placement is not None
        assert row["capacity:r"] == answer.requests[0].capacity
        assert row["picoseconds"] == answer.placement.picoseconds
        for space in answer.placement.spaces:
            assert row[f"layers:{space.name}"] == space.layers
            assert row[f"experts:{space.name}"] == space.experts
    assert statuses == {"optimal", "infeasible"}


def test_ranks_agree_on_one_placement(asked: Problem) -> None:
    """Each rank is a space: it tells its own quota, and all come to the same slices."""
    hub = Hub()
    views = [LocalView.of(asked, rank) for rank in asked.ranks]
    comms = [hub.comm(index, range(len(views))) for index in range(len(views))]
    with ThreadPoolExecutor(len(views)) as pool:
        answers = list(pool.map(plan_together, views, comms))
    for answer in answers:
        assert decided(answer) == decided(plan(asked))
        assert violations(asked, answer) == []


def test_the_page_has_the_placement(asked: Problem) -> None:
    page = html_report(asked)
    for word in ("ms a token", "what 1 GiB more buys", "own choice"):
        assert word in page


def test_what_has_no_meaning_says_so(asked: Problem) -> None:
    answer = plan(asked)
    with pytest.raises(InvalidProblem, match="solve lists context against speed"):
        frontier(asked, ["capacity:r", "speed"])
    with pytest.raises(InvalidProblem, match=r"oracle\.placements"):
        oracle.best(asked)
    (violation,) = oracle.check(asked, answer)
    assert "kvplan verify" in str(violation)
