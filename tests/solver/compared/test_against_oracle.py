"""Every solver against the exhaustive oracle on thousands of small instances."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.models import Infeasible, Plan, Problem, Undecided
from kvplan.models.plan import Solver
from kvplan.solver import plan
from kvplan.solver.oracle import Best, best, check
from support.decisions import expected, found
from support.instances import random_problem

INSTANCES = 3_072
CHUNK = 128


def goals(answer: Best) -> dict[str, Fraction]:
    """Value of every goal by label; a goal that the user wrote and a default one are the same."""
    return dict(zip(answer.labels, answer.goals, strict=True))


def solved(problem: Problem, solver: Solver) -> Plan | None:
    """The plan, or None where nothing fits."""
    try:
        return plan(problem, solver=solver)
    except Infeasible:
        return None


@pytest.mark.parametrize("start", range(0, INSTANCES, CHUNK))
def test_engines_equal_the_oracle(start: int) -> None:
    for seed in range(start, start + CHUNK):
        problem = Problem.model_validate(random_problem(seed))
        truth = best(problem)
        for solver in ("auto", "cp-sat"):
            answer = solved(problem, solver)
            assert (answer and found(answer)) == expected(truth), (seed, solver)
            if answer is not None and truth is not None:
                assert answer.status == "optimal", (seed, solver)
                by_label = goals(truth)
                for entry in answer.proof.bound:
                    assert entry.value == entry.bound, (seed, solver, entry)
                    if entry.goal in by_label:
                        assert entry.value == by_label[entry.goal], (seed, solver, entry)
                assert check(problem, answer) == [], (seed, solver)


@pytest.mark.parametrize("start", range(0, INSTANCES, 4 * CHUNK))
def test_bisect_is_right_where_it_claims_a_proof(start: int) -> None:
    proven = 0
    for seed in range(start, start + 4 * CHUNK):
        problem = Problem.model_validate(random_problem(seed))
        try:
            answer = solved(problem, "bisect")
        except Undecided:  # under linear constraints it may find no point, and then says so
            assert problem.constraints
            continue
        truth = best(problem)
        if answer is None or answer.status == "optimal":
            proven += 1
            assert (answer and found(answer)) == expected(truth), seed
        else:
            assert truth is not None, seed
            assert check(problem, answer) == [], seed
    assert proven > 3 * CHUNK


def test_instances_are_of_every_kind() -> None:
    """The equality above would be cheap if the instances were."""
    seen: set[str] = set()
    infeasible = 0
    for seed in range(INSTANCES):
        data = random_problem(seed)
        problem = Problem.model_validate(data)
        seen |= {cache.retention for cache in problem.caches}
        seen |= {f"fit {request.fit}" for batch in problem.batches for request in batch.requests}
        seen |= {f"utilization {problem.resume_utilization}"}
        seen |= {"prefix" for batch in problem.batches if batch.shared_prefix}
        seen |= {"scratch" for cache in problem.caches if cache.scratch}
        seen |= {"sink" for cache in problem.caches if cache.sink}
        seen |= {"placeholder" for b in problem.batches for r in b.requests if r.capacity == 0}
        seen |= {"weighted" for goal in problem.goals if goal.single is None}
        seen |= {"constraint" for _ in problem.constraints}
        seen |= {"lend" for _ in [problem.experts] if _ is not None and _.lend is not None}
        seen |= {"two fitted" for _ in [0] if len(problem.fitted("capacity")) > 1}
        if problem.fill is not None:
            seen |= {f"fill {name}" for name in problem.fill.model_fields_set}
        infeasible += best(problem) is None if seed < CHUNK else 0
    assert {"full", "live", "peak", "in_flight", "chunked", "state"} <= seen
    assert {"fit capacity", "fit count", "prefix", "scratch", "sink", "placeholder"} <= seen
    assert {"utilization 1/2", "utilization 19/20", "utilization 97/100", "utilization 1"} <= seen
    assert {"weighted", "constraint", "lend", "two fitted"} <= seen
    assert {"fill batch", "fill pools", "fill shares", "fill none"} <= seen
    assert CHUNK // 10 < infeasible < CHUNK // 2
