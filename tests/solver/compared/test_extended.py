"""Problems with the further parts of the format: every solver against the exhaustive oracle."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem, Plan, Problem, Undecided
from kvplan.solver import plan
from kvplan.solver.oracle import Best, best, check
from kvplan.solver.verify import violations
from support.decisions import expected, found
from support.extended import PARTS, extended_problem
from support.infeasible import works
from support.solvers import refusal_of

INSTANCES = 192
MOST_CELLS = 400_000
HOST_ONLY = (
    "mix",
    "powers",
    "contexts",
)  # refused by the batched search, which leaves them to the host


def drawn(seed: int, part: str) -> tuple[Problem, Best | None] | None:
    """A problem with its best plan; None where the draw is malformed or too large."""
    try:
        problem = Problem.model_validate(extended_problem(seed, part))
        return problem, best(problem, limit=MOST_CELLS)
    except (InvalidProblem, ValueError):
        return None


def solved(problem: Problem, solver: Any = "auto") -> Plan | None:
    """The plan; None where nothing fits."""
    try:
        return plan(problem, solver=solver)
    except Infeasible:
        return None


@pytest.mark.parametrize("part", PARTS)
def test_solvers_equal_the_oracle(part: str) -> None:
    compared = feasible = 0
    for seed in range(INSTANCES):
        drawing = drawn(seed, part)
        if drawing is None:
            continue
        problem, truth = drawing
        for solver in ("auto", "cp-sat"):
            answer = solved(problem, solver)
            assert (answer and found(answer)) == expected(truth), (seed, solver)
            if answer is not None:
                assert answer.status == "optimal", (seed, solver)
                assert check(problem, answer) == [], (seed, solver)
                assert violations(problem, answer) == [], (seed, solver)
        compared += 1
        feasible += truth is not None
    assert compared > INSTANCES * 0.9
    assert INSTANCES // 3 < feasible < compared


@pytest.mark.parametrize("part", ["contexts", "running"])
def test_every_remedy_works(part: str) -> None:
    tried = 0
    for seed in range(INSTANCES // 3):
        data = extended_problem(seed, part)
        try:
            refusal = refusal_of(Problem.model_validate(data))
        except InvalidProblem:
            continue
        for remedy in refusal.remedies if refusal is not None else ():
            assert works(data, f"{remedy.change}={remedy.to}"), (seed, remedy)
            tried += 1
    assert tried > 20


@pytest.mark.parametrize("part", PARTS)
def test_a_device_gives_the_host_s_plan(part: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    answered = 0
    for seed in range(INSTANCES // 2):
        drawing = drawn(seed, part)
        if drawing is None or drawing[1] is None or drawing[0].constraints:
            continue
        answer = plan(drawing[0], solver="bisect", device="cpu")
        assert answer.digest == plan(drawing[0], solver="bisect").digest, seed
        answered += answer.proof.certificate == "nested on cpu"
    assert answered == 0 if part in HOST_ONLY else answered > 2


@pytest.mark.parametrize("part", PARTS)
def test_bisect_is_right_where_it_claims_a_proof(part: str) -> None:
    proven = 0
    for seed in range(INSTANCES):
        drawing = drawn(seed, part)
        if drawing is None:
            continue
        problem, truth = drawing
        try:
            answer = solved(problem, "bisect")
        except Undecided:
            assert problem.constraints, seed
            continue
        if answer is None or answer.status == "optimal":
            proven += 1
            assert (answer and found(answer)) == expected(truth), seed
        else:
            assert check(problem, answer) == [], seed
    assert proven > INSTANCES // 2
