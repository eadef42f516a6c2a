"""Deadlines: never nothing where a plan was found, and never more than it proves."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.solver import oracle, plan
from kvplan.solver.cpsat.driver import Driver
from support.solvers import SOLVERS
from support.unproven import blind_search, plain, tied, weighted, with_fields


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_deadline_of_nothing_still_gives_what_the_search_found(solver: Any) -> None:
    answer = plan(weighted(), solver=solver, deadline=0)
    assert with_fields(answer) == ("feasible", solver, "search")
    if solver != "bisect":
        note = "the deadline passed before CP-SAT found a plan; this one is the search's"
        assert answer.notes[-1] == note
    first = answer.proof.bound[0]
    assert first.bound is not None
    assert first.value <= plan(weighted()).proof.bound[0].value <= first.bound


def test_a_deadline_does_not_touch_what_the_search_proves() -> None:
    assert with_fields(plan(plain(), deadline=0)) == ("optimal", "auto", "nested")
    late = plan(plain(), solver="cp-sat", deadline=0)
    assert with_fields(late) == ("optimal", "cp-sat", "nested")
    assert late.digest == plan(plain()).digest
    assert "the deadline passed" in late.notes[-1]


def test_what_cp_sat_leaves_unproven_the_search_may_have_proven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time ends after the first goal: the plan is the search's, whole and proven."""
    times = iter([10.0])
    monkeypatch.setattr(Driver, "time_left", lambda _: next(times, 0.0))
    late = plan(plain(), solver="cp-sat", deadline=10)
    assert with_fields(late) == ("optimal", "cp-sat", "nested")
    assert late.digest == plan(plain()).digest


def test_a_deadline_far_away_changes_nothing() -> None:
    assert plan(weighted(), deadline=60).digest == plan(weighted()).digest


def test_a_deadline_after_the_first_goal_keeps_what_cp_sat_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time ends between two goals: the solution of the first one is a plan, and checked."""
    blind_search(monkeypatch)
    best = plan(tied())
    times = iter([10.0])
    monkeypatch.setattr(Driver, "time_left", lambda _: next(times, 0.0))
    answer = plan(tied(), deadline=10)
    assert answer.status == "feasible"
    assert answer.requests[0].count == best.requests[0].count
    assert list(oracle.check(tied(), answer)) == []
