"""What once gave wrong answers, drawn at random: every solver against the exhaustive oracle."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem, Plan, Problem, SolverError, Undecided
from kvplan.solver import plan
from kvplan.solver.oracle import Best, best, check
from support.brute import best_candidate, size
from support.decisions import expected, found
from support.instances import random_problem
from support.odd import PARTS, at_granule_step, odd_problem, scaled

INSTANCES, CHUNK = 448, 64
MOST_CELLS = 400_000


def drawn(seed: int) -> tuple[Problem, Best | None] | None:
    """A problem with its best plan; None where the draw is malformed or too large."""
    try:
        problem = Problem.model_validate(odd_problem(seed, PARTS[seed % len(PARTS)]))
        return problem, best(problem, limit=MOST_CELLS)
    except (InvalidProblem, ValueError):
        return None


def solved(problem: Problem, solver: Any = "auto") -> Plan | None:
    """The plan; None where nothing fits."""
    try:
        return plan(problem, solver=solver)
    except Infeasible:
        return None


@pytest.mark.parametrize("start", range(0, INSTANCES, CHUNK))
def test_solvers_equal_the_oracle(start: int) -> None:
    compared = 0
    for seed in range(start, start + CHUNK):
        drawing = drawn(seed)
        if drawing is None:
            continue
        problem, truth = drawing
        for solver in ("auto", "cp-sat"):
            answer = solved(problem, solver)
            assert (answer and found(answer)) == expected(truth), (seed, solver)
            assert answer is None or answer.status == "optimal", (seed, solver)
        compared += 1
    assert compared > CHUNK * 0.9


@pytest.mark.parametrize("start", range(0, INSTANCES, CHUNK))
def test_bisect_gives_a_plan_a_refusal_or_says_that_it_does_not_know(start: int) -> None:
    plans = 0
    for seed in range(start, start + CHUNK):
        drawing = drawn(seed)
        if drawing is None:
            continue
        problem, truth = drawing
        try:
            answer = solved(problem, "bisect")
        except Undecided:
            assert problem.constraints, seed
            continue
        plans += answer is not None
        if answer is None or truth is None:
            assert (answer, truth) == (None, None), seed
            continue
        assert answer.status == "feasible" or found(answer) == expected(truth), seed
        first = answer.proof.bound[0] if answer.proof.bound else None
        if first is not None and first.bound is not None:
            assert truth.goals[0] <= first.bound, seed
    assert plans > CHUNK // 4


def test_the_oracle_loses_nothing_on_them() -> None:
    """The plainest enumeration, on what is small enough for it (it knows no shares)."""
    compared = 0
    for seed in range(400):
        drawing = drawn(seed)
        if drawing is None:
            continue
        problem, truth = drawing
        has_shares = problem.fill is not None and problem.fill.shares is not None
        if has_shares or size(problem) > 20_000:
            continue
        compared += 1
        candidate = best_candidate(problem)
        if truth is None:
            assert candidate is None, seed
            continue
        assert candidate is not None, seed
        reserved = {pool.name: pool.reserved_blocks for pool in problem.pools}
        blocks = {name: usable + reserved[name] for name, usable in candidate.usable.items()}
        assert blocks == dict(truth.blocks), seed
    assert compared > 30


@pytest.mark.parametrize("seed", range(60))
def test_granules_step_with_the_quota(seed: int) -> None:
    problem = Problem.model_validate(at_granule_step(seed))
    assert {found_or_none(solved(problem, solver)) for solver in ("auto", "cp-sat", "bisect")} == {
        found_or_none(solved(problem))
    }
    truth = best(problem)
    answer = solved(problem)
    assert (answer and found(answer)) == expected(truth)


def found_or_none(answer: Plan | None) -> str | None:
    return None if answer is None else answer.digest


@pytest.mark.parametrize("power", [31, 53, 62])
def test_large_figures_change_no_decision(power: int) -> None:
    """Every byte figure times one factor, so that the largest quota is near 2^power."""
    compared = beyond = 0
    for seed in range(40):
        data = random_problem(seed, memory=False)
        quota = max(rank["quota"] for rank in data["ranks"])
        if '"auto"' in repr(data).replace("'", '"') or not quota:
            continue
        small = solved(Problem.model_validate(data))
        large = Problem.model_validate(scaled(data, max(1, 2**power // quota)))
        for solver in ("auto", "cp-sat"):
            try:
                answer = solved(large, solver)
            except (SolverError, Undecided):  # beyond what CP-SAT can write, and says so
                beyond += 1
                continue
            if answer is not None and answer.status == "feasible":
                beyond += 1
                continue
            compared += 1
            assert (answer and found(answer)) == (small and found(small)), (seed, solver)
    assert compared > 20
    assert power == 62 or not beyond


def test_problems_are_of_every_part() -> None:
    """The equality above would be cheap if the problems were."""
    seen: set[str] = set()
    for seed in range(200):
        drawing = drawn(seed)
        if drawing is None:
            continue
        problem, truth = drawing
        names = [name for row in problem.constraints for name in row.terms]
        seen |= {name.partition(":")[0] for name in names}
        seen |= {"curve" for goal in problem.goals if goal.curves}
        labels = [goal.label for goal in problem.goals]
        seen |= {"equal labels" for _ in [0] if len(set(labels)) < len(labels)}
        live = {c.tokens_per_block for c in problem.caches if c.retention == "live"}
        shared = any(batch.shared_prefix for batch in problem.batches)
        seen |= {"windows behind a prefix" for _ in [0] if shared and len(live) > 1}
        if problem.fill is not None and problem.fill.shares is not None and problem.constraints:
            seen.add("shares beside constraints")
        seen.add("feasible" if truth else "infeasible")
    assert {"copies", "count", "capacity", "curve", "equal labels"} <= seen
    assert {"windows behind a prefix", "shares beside constraints"} <= seen
    assert {"feasible", "infeasible"} <= seen


def test_plans_keep_every_rule_the_oracle_knows() -> None:
    for seed in range(CHUNK):
        drawing = drawn(seed)
        if drawing is None or drawing[1] is None:
            continue
        problem = drawing[0]
        labels = [goal.label for goal in problem.goals]
        if len(set(labels)) == len(labels):
            for solver in ("auto", "cp-sat"):
                assert check(problem, plan(problem, solver=solver)) == [], (seed, solver)
