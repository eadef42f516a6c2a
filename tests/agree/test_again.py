"""Ranks plan again for new quotas: from a planner or an earlier plan, all alike or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvplan.models import AgreementFailed, InvalidProblem, Plan, Problem
from kvplan.models.measured.local import LocalView
from kvplan.models.ranks import Rank
from kvplan.solver import Planner, plan
from kvplan.solver.agree import Hub, NullComm, plan_together
from kvplan.solver.agree.again import Again
from support.agreeing import Told, in_threads, question

RANKS = 4
REQUEST = {"name": "long", "capacity": 2**20, "fit": "capacity"}
LESS = 2**30


def problem(quota: int = 100 * 2**30, **changes: Any) -> Problem:
    ranks = [{"name": f"r{rank}", "quota": quota} for rank in range(RANKS)]
    batches = [{"name": "b", "requests": [REQUEST]}]
    return Problem.model_validate({"ranks": ranks, "batches": batches} | question(**changes))


def entry(me: int, quota: int = 60 * 2**30) -> Rank:
    return Rank(name=f"r{me}", quota=quota - me * LESS)


def told(again: Callable[[int], Again], local: Callable[[int], Any] = entry) -> list[Plan | str]:
    """The plan of each rank, or the text of its error."""
    hub, found = Hub(), dict[int, Plan | str]()

    def work(me: int) -> Told:
        try:
            comm = hub.comm(me, range(RANKS))
            found[me] = plan_together(lambda: local(me), comm, 20, again=again(me))
        except Exception as error:
            found[me] = f"{type(error).__name__}: {error}"
        return Told("", "", 0)

    in_threads([lambda me=me: work(me) for me in range(RANKS)])
    return [found[me] for me in range(RANKS)]


def same(answers: list[Plan | str]) -> Plan | str:
    """What all ranks came to."""
    first = answers[0]
    texts = {each if isinstance(each, str) else each.digest for each in answers}
    assert len(texts) == 1, texts
    return first


def quotas() -> dict[str, int]:
    return {f"r{me}": entry(me).quota or 0 for me in range(RANKS)}


def test_a_planner_fits_everything_again() -> None:
    planner = Planner(problem())
    answer = same(told(lambda _: Planner(problem())))
    assert answer == planner.plan(quota=quotas())
    assert isinstance(answer, Plan)
    assert (
        answer.requests[0].capacity
        == planner.plan(quota=min(quotas().values())).requests[0].capacity
    )


def test_a_plan_is_resized_and_holds_its_capacity() -> None:
    earlier = plan(problem(16 * 2**30))
    answer = same(told(lambda _: plan(problem(16 * 2**30))))
    assert answer == earlier.resize(quotas())
    assert isinstance(answer, Plan)
    assert answer.requests[0].capacity == earlier.requests[0].capacity < REQUEST["capacity"]


def test_below_what_is_held_all_raise_the_same() -> None:
    text = same(told(lambda _: plan(problem()), lambda me: entry(me, 20 * 2**30)))
    assert str(text).startswith("Infeasible: rank r3 is short by")


def test_the_rank_with_another_problem_is_named() -> None:
    others = problem(tokens_per_block=32)
    text = same(told(lambda me: Planner(others if me == 2 else problem())))
    assert str(text).startswith("AgreementFailed: rank 2 (r2) has again problem ")


def test_a_planner_and_a_plan_do_not_go_together() -> None:
    text = same(told(lambda me: plan(problem()) if me == 1 else Planner(problem())))
    assert str(text).startswith("AgreementFailed: rank 1 (r1) has again plan ")


def test_what_a_rank_raises_while_it_measures_reaches_all() -> None:
    def broken(me: int) -> Rank:
        if me == 3:
            raise RuntimeError("no device")
        return entry(me)

    text = same(told(lambda _: Planner(problem()), broken))
    assert text == "AgreementFailed: rank 3: RuntimeError: no device"


def test_a_local_view_is_taken_too() -> None:
    views = same(told(lambda _: Planner(problem()), lambda me: LocalView.of({}, entry(me))))
    assert views == Planner(problem()).plan(quota=quotas())


def test_the_ranks_must_be_those_of_the_problem() -> None:
    with pytest.raises(
        InvalidProblem, match="ranks: expected one entry for each of r0, r1, r2, r3, got r0"
    ):
        plan_together(entry(0), NullComm(), 1, again=Planner(problem()))


def test_an_entry_alone_needs_something_to_plan_again_from() -> None:
    with pytest.raises(AgreementFailed, match="expected a LocalView, got Rank"):
        plan_together(entry(0), NullComm(), 1)
