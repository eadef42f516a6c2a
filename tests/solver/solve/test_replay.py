"""plan(replay=True) and solve_confirmed: the oracle replays a plan before it is returned."""

from __future__ import annotations

import pytest

from kvplan.models import CheckFailed, Infeasible, Plan, Problem
from kvplan.solver import Planner, oracle, plan, solve_confirmed
from kvplan.solver.check import Check
from kvplan.solver.formulate import formulation
from kvplan.solver.oracle import check
from kvplan.solver.report import report
from support.micro import micro, one


def problem() -> Problem:
    return micro(100, **one(60, fit="capacity"))


def test_the_proof_says_what_was_replayed() -> None:
    plain, again = plan(problem()), plan(problem(), replay=True)
    assert (plain.proof.replayed, again.proof.replayed) == (False, True)
    assert again.digest == plain.digest
    assert again.model_copy(update={"proof": plain.proof}) == plain
    assert solve_confirmed(problem()).proof.replayed
    assert not Planner(problem()).plan().proof.replayed


def test_the_report_says_so_in_the_line_of_the_proof() -> None:
    given = problem()
    headline = "optimal (solver cp-sat): every goal proven by CP-SAT, confirmed"
    texts = (report(answer, given) for answer in (solve_confirmed(given), plan(given)))
    replayed, plain = (text.splitlines()[0] for text in texts)
    assert replayed == f"{headline} by the nested search, replayed block by block"
    assert plain == "optimal (solver auto): every goal proven by the nested search"


def test_a_replayed_plan_survives_json_and_can_be_resized() -> None:
    answer = plan(problem(), replay=True)
    assert Plan.model_validate_json(answer.model_dump_json()) == answer
    assert answer.resize(200).blocks["p"] == 20
    older = answer.model_dump(mode="json")
    del older["proof"]["replayed"]
    assert not Plan.model_validate(older).proof.replayed


def test_what_the_oracle_objects_to_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search and check both believe in a byte more; the oracle does not."""
    real = formulation.Instance

    def generous(**given: object) -> object:
        instance = real(**given)  # type: ignore[arg-type]
        more = (row._replace(limit_bytes=row.limit_bytes + 10) for row in instance.budgets)
        return instance._replace(budgets=tuple(more))

    monkeypatch.setattr(formulation, "Instance", generous)
    monkeypatch.setattr(Check, "broken", lambda *_: [])
    given = micro(105, **one(8))
    assert check(given, plan(given))
    with pytest.raises(CheckFailed, match=r"replay found a wrong plan.*quota: r0/prefill"):
        plan(given, replay=True)


def test_a_refusal_needs_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "check", None)
    with pytest.raises(Infeasible):
        plan(micro(9, **one(60)), replay=True)
