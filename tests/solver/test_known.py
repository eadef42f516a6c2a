"""Problems that were planned lately are not read again; what differs is never mixed up."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan import solver
from kvplan.models import InvalidProblem, Problem
from kvplan.solver import plan
from kvplan.solver import shape as shape_module
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.known import MOST_KEPT, compiled
from kvplan.solver.oracle import best
from support.micro import micro, one


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Problems that are formulated from now on."""
    read: list[Problem] = []

    def spy(problem: Problem) -> Any:
        read.append(problem)
        return formulate(problem)

    monkeypatch.setattr(shape_module, "formulate", spy)
    return read


def test_a_problem_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, problem = counted(monkeypatch), micro(**one(33, fit="capacity"))
    first, second = plan(problem), plan(problem)
    assert first == second
    assert read == [problem]


def test_problems_that_differ_in_quotas_alone_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = counted(monkeypatch)
    found = [plan(micro(quota, **one(33))) for quota in (190, 190, 170)]
    assert len(read) == 1
    assert found[0] == found[1]
    assert [answer.ranks[0].quota for answer in found] == [190, 190, 170]


def test_a_changed_copy_is_read_anew() -> None:
    problem = micro(**one(400, fit="capacity"))
    before = plan(problem)
    changed = problem.model_copy(update={"tokens_per_block": 2 * problem.tokens_per_block})
    assert plan(changed).digest != before.digest
    assert plan(changed) == plan(Problem.model_validate(changed.model_dump(mode="json")))
    assert plan(problem) == before


def test_only_the_last_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    problems = [micro(**one(33 + k)) for k in range(MOST_KEPT + 1)]
    for problem in problems:
        compiled(problem)
    compiled(problems[1])  # used again, so the second is younger than the third now
    assert len(read) == MOST_KEPT + 1
    compiled(problems[0])
    compiled(problems[1])
    assert len(read) == MOST_KEPT + 2
    compiled(problems[2])
    assert len(read) == MOST_KEPT + 3


def test_a_failed_reading_is_not_kept() -> None:
    open_count = {"batches": [{"name": "b", "requests": [{"capacity": 0, "fit": "count"}]}]}
    problem = micro(**open_count)
    for _ in range(2):
        with pytest.raises(Exception, match="takes no block"):
            plan(problem)


def test_what_is_no_deadline_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidProblem, match=r"^deadline: expected seconds .*, got 'soon'$"):
        plan(micro(**one(3)), deadline="soon")  # type: ignore[arg-type]


def test_tab_completion_shows_what_is_loaded_late() -> None:
    assert {"Planner", "plan"} <= {*dir(solver)}
    assert {"floors", "ranks", "requests", "blocks"} <= {*dir(plan(micro(**one(3))))}


@pytest.mark.parametrize("call", [plan, solver.Planner, solver.solve_confirmed, best])
def test_every_call_says_that_it_wants_a_problem(call: Any) -> None:
    with pytest.raises(InvalidProblem, match=r"^problem: expected a Problem .*, got str$"):
        call("card.yaml")
