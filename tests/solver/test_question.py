"""`question` hashes what was asked; `digest` stays of what was decided."""

from __future__ import annotations

from typing import Any

from kvplan.models import Plan, Problem
from kvplan.solver import Planner, plan
from kvplan.solver.digest import question_of

DATA: dict[str, Any] = {
    "version": 1,
    "ranks": [{"name": "gpu", "quota": "1GiB"}],
    "pools": [{"name": "kv", "bytes": "2MiB", "max_blocks": 100}],
}


def problem(**changes: Any) -> Problem:
    return Problem.model_validate({**DATA, **changes})


def test_the_same_decisions_on_another_question() -> None:
    first = plan(problem())
    other = plan(problem(ranks=[{"name": "gpu", "quota": "2GiB"}]))
    assert first.digest == other.digest
    assert first.question != other.question


def test_how_a_problem_is_written_does_not_count() -> None:
    written = problem(
        ranks=[{"quota": 2**30, "name": "gpu"}],
        pools=[{"name": "kv", "bytes": "2048KiB", "max_blocks": 100, "reserved_blocks": 0}],
    )
    assert plan(written).question == plan(problem()).question == question_of(problem())


def test_a_planner_and_a_resize_say_their_own_question() -> None:
    asked = problem(ranks=[{"name": "gpu", "quota": "1500MiB"}])
    planner = Planner(problem())
    assert planner.plan(quota="1500MiB").question == question_of(asked)
    assert planner.plan().question == question_of(problem())
    assert plan(problem()).resize("1500MiB").question == question_of(asked)


def test_an_older_plan_has_none() -> None:
    document = plan(problem()).model_dump(mode="json")
    del document["question"]
    assert Plan.model_validate(document).question == ""
