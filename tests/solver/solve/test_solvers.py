"""Which solver answers, what happens when one is missing or fails, and bad arguments."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from ortools.sat.python import cp_model

from kvplan.models import Infeasible, InvalidProblem, SolverError, Undecided
from kvplan.solver import digest_of, plan
from kvplan.solver.oracle import check
from support.micro import micro, one, pool
from support.solvers import SOLVERS
from support.unproven import SLOTS, blind_search, plain, tied, weighted, with_fields


@pytest.mark.parametrize(
    ("problem", "solver", "expected"),
    [
        (plain, "auto", ("optimal", "auto", "nested")),
        (plain, "cp-sat", ("optimal", "cp-sat", "cp-sat")),
        (plain, "bisect", ("optimal", "bisect", "nested")),
        (weighted, "auto", ("optimal", "auto", "cp-sat")),
        (weighted, "cp-sat", ("optimal", "cp-sat", "cp-sat")),
        (weighted, "bisect", ("feasible", "bisect", "search")),
    ],
)
def test_a_plan_says_who_answered_and_how(problem: Any, solver: Any, expected: Any) -> None:
    answer = plan(problem(), solver=solver)
    assert with_fields(answer) == expected
    assert answer.proof.status == answer.status
    assert (answer.proof.deterministic_time > 0) == (expected[2] == "cp-sat")


def test_the_digest_is_of_the_decisions_alone() -> None:
    for problem in (plain(), weighted()):
        answers = [plan(problem, solver=solver) for solver in ("auto", "cp-sat")]
        assert len({answer.digest for answer in answers}) == 1
        assert all(digest_of(answer) == answer.digest for answer in answers)
    loose = plan(micro(107, experts=SLOTS, **one(40, fit="capacity")))
    other = plan(micro(108, experts={**SLOTS, "max_slots": 13}, **one(40, fit="capacity")))
    assert loose.digest == other.digest != plan(plain()).digest


def test_every_decision_is_in_the_digest() -> None:
    answer = plan(
        micro(
            200,
            experts={**SLOTS, "lend": {"keep": 0}},
            prefill={"requested": 4},
            choices=[{"name": "w", "options": [{"name": "x"}]}],
            batches=[{"name": "b", "requests": [{"name": "q", "capacity": 8}]}],
            fill={"batch": "b"},
        )
    )
    [request] = answer.requests
    changes: list[dict[str, Any]] = [
        {"blocks": {"p": 1}},
        {"prefill_chunk": 3},
        {"expert_slots": 1},
        {"expert_slots_in_prefill": 1},
        {"choices": {"w": "y"}},
        {"copies": 9},
        {"requests": (request.model_copy(update={"capacity": 7}),)},
        {"requests": (request.model_copy(update={"history": 6}),)},
        {"requests": (request.model_copy(update={"count": 2}),)},
    ]
    digests = {digest_of(answer.model_copy(update=change)) for change in changes}
    assert len(digests) == len(changes)
    assert answer.digest not in digests
    assert digest_of(answer.model_copy(update={"notes": ("hello",)})) == answer.digest


# --- OR-Tools is missing or fails ---------------------------------------------------------------


@pytest.fixture
def _without_ortools(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("ortools", "kvplan.solver.cpsat"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ortools", None)
    import kvplan.solver

    monkeypatch.delattr(kvplan.solver, "cpsat", raising=False)


@pytest.mark.usefixtures("_without_ortools")
def test_without_ortools_auto_answers_by_search_and_says_so() -> None:
    answer = plan(weighted())
    assert with_fields(answer) == ("feasible", "auto", "search")
    assert answer.notes[-1].startswith("solver: OR-Tools is missing: ")
    assert plan(plain()).notes == plan(plain(), solver="bisect").notes
    assert with_fields(plan(plain())) == ("optimal", "auto", "nested")


@pytest.mark.usefixtures("_without_ortools")
def test_without_ortools_cp_sat_is_an_error() -> None:
    with pytest.raises(
        SolverError, match=r"OR-Tools is missing: .*; solver auto or bisect answers"
    ):
        plan(plain(), solver="cp-sat")
    with pytest.raises(SolverError, match="OR-Tools is missing"):
        plan(micro(9, **one(4)), solver="cp-sat")  # infeasible: nobody confirms it
    with pytest.raises(Infeasible):
        plan(micro(9, **one(4)))


ODD = [{"terms": {"blocks:p": 2, "experts": -2}, "min": 1, "max": 1}]
"""No two whole numbers are half apart, which CP-SAT proves and the search does not."""


@pytest.mark.usefixtures("_without_ortools")
def test_without_ortools_constraints_that_the_search_cannot_mend_stay_undecided() -> None:
    odd = micro(100, experts={"slot_bytes": 7, "max_slots": 12}, constraints=ODD)
    with pytest.raises(Undecided, match=r"no plan that obeys the linear constraints.*missing"):
        plan(odd)
    answer = plan(tied())
    assert with_fields(answer) == ("feasible", "auto", "search")
    assert check(tied(), answer) == []


@pytest.mark.parametrize("error", [RuntimeError("broken"), SolverError("refused")])
def test_a_solver_that_raises_is_replaced_by_the_search(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(cp_model.CpSolver, "solve", fail)
    answer = plan(weighted())
    assert with_fields(answer) == ("feasible", "auto", "search")
    assert answer.notes[-1] == f"solver: CP-SAT failed: {error}"
    with pytest.raises(SolverError, match=f"CP-SAT failed: {error}"):
        plan(weighted(), solver="cp-sat")


def test_cp_sat_out_of_memory_is_replaced_by_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(cp_model.CpSolver, "solve", fail)
    answer = plan(weighted())
    assert answer.notes[-1] == "solver: CP-SAT failed: it ran out of memory"
    with pytest.raises(SolverError, match="CP-SAT failed: it ran out of memory"):
        plan(weighted(), solver="cp-sat")


def test_a_model_that_cp_sat_refuses_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp_model.CpSolver, "solve", lambda *_: cp_model.MODEL_INVALID)
    monkeypatch.setattr(
        cp_model.CpSolver, "response_proto", property(lambda _: _Response()), raising=False
    )
    monkeypatch.setattr(cp_model.CpSolver, "value", lambda *_: 94_750_820_513_832)
    answer = plan(weighted())
    assert answer.notes[-1].startswith("solver: CP-SAT failed: CP-SAT refuses the model")


class _Response:
    deterministic_time = 0.0


def test_figures_beyond_64_bits_are_answered_by_the_search() -> None:
    huge = micro(2**62, goals=[{"maximize": {"blocks:p": 1, "blocks:q": -1}}], pools=HUGE)
    answer = plan(huge)
    assert with_fields(answer) == ("feasible", "auto", "search")
    assert answer.notes[-1] == "solver: the figures leave CP-SAT's 64-bit range"
    assert answer.ranks[0].used <= 2**62
    with pytest.raises(SolverError, match="leave CP-SAT's 64-bit range"):
        plan(huge, solver="cp-sat")
    assert plan(micro(2**62, **pool(bytes=1))).blocks == {"p": 2**62}
    even = plan(micro(2**62, goals=[{"maximize": {"blocks:p": 1, "blocks:q": 1}}], pools=HUGE))
    assert with_fields(even) == ("feasible", "auto", "search")
    assert even.proof.bound[0].value <= even.proof.bound[0].bound


HUGE = [{"name": "p", "bytes": 2**61 - 1}, {"name": "q", "bytes": 2**61 - 3}]


# --- bad arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["", "cpsat", "CP-SAT", "gurobi"])
def test_an_unknown_solver_is_refused(solver: Any) -> None:
    with pytest.raises(InvalidProblem) as caught:
        plan(plain(), solver=solver)
    assert str(caught.value) == f"solver: expected one of auto, cp-sat, bisect, got {solver!r}"


@pytest.mark.parametrize("deadline", [-1, -0.001, float("nan"), float("inf")])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_deadline_that_makes_no_sense_is_refused(solver: Any, deadline: float) -> None:
    with pytest.raises(InvalidProblem) as caught:
        plan(plain(), solver=solver, deadline=deadline)
    assert str(caught.value) == f"deadline: expected seconds of at least 0, got {deadline!r}"


# --- what only one solver meets -----------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "cp-sat"])
def test_constraints_that_the_search_cannot_mend_are_for_cp_sat(
    solver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind_search(monkeypatch)
    answer = plan(tied(), solver=solver)
    assert with_fields(answer) == ("optimal", solver, "cp-sat")
    fitting = [
        (count, slots, blocks)
        for count in range(1, 10)
        for slots in range(13)
        for blocks in range(count, 11)
        if 5 * blocks - 5 * slots - 2 * count == 5
        and -2 <= count - 2 * slots <= -1
        and 10 * blocks + 7 * slots <= 100
    ]
    assert (answer.requests[0].count, answer.expert_slots, answer.blocks["p"]) == max(fitting)


def test_a_need_that_can_fall_to_nothing_beside_copies() -> None:
    """At H = C and a window of one token a request at a block's end needs no block at all."""
    window = {"name": "c", "pool": "p", "kind": "window", "keep": "live", "window": 13}
    capped = [{"terms": {"copies:b": 1, "capacity:q": 1}, "max": 41}]
    problem = micro(200, caches=[window], constraints=capped, **one(41, 40, fit="capacity"))
    answers = {plan(problem, solver=solver).digest for solver in ("auto", "cp-sat")}
    assert len(answers) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_refusal_beside_a_curve_on_blocks(solver: Any) -> None:
    """The smallest blocks are no multiple: a hint from there lies outside the domain."""
    goal = {"maximize": {"blocks:p": 1}, "curves": {"blocks:p": [[1, 1], [5, 3], [9, 10]]}}
    fields = pool(multiple_of=3, min_blocks=4)
    assert plan(micro(100, goals=[goal], **fields), solver=solver).blocks == {"p": 9}
    loads = [{"name": "w", "bytes": 101, "phases": ["load"]}]
    with pytest.raises(Infeasible, match="rank r0 is short by 1 B in load"):
        plan(micro(100, goals=[goal], consumers=loads, **fields), solver=solver)
