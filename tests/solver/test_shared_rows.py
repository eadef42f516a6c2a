"""Linear rows that two members can mend: the search against the exhaustive oracle."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.kernels import pages
from kvplan.models import Infeasible, Plan, Problem, Undecided
from kvplan.solver import plan
from kvplan.solver.oracle import best, check
from support.decisions import expected, found
from support.micro import micro
from support.shared_rows import shared_row_problem
from support.solvers import agreed

INSTANCES = 1_024
CHUNK = 128


def searched(problem: Problem) -> tuple[bool, Plan | None]:
    """Whether the search alone proves its answer, and the answer; None where nothing fits."""
    try:
        answer = plan(problem, solver="bisect")
    except Infeasible:
        return True, None
    except Undecided:  # it found no point that obeys, and says so
        return False, None
    return answer.status == "optimal", answer


def proofs(seeds: range) -> int:
    """How many answers the search proves, each the oracle's."""
    proven = 0
    for seed in seeds:
        problem = shared_row_problem(seed)
        proof, answer = searched(problem)
        if proof:
            proven += 1
            assert (answer and found(answer)) == expected(best(problem)), seed
        if answer is not None:
            assert check(problem, answer) == [], seed
    return proven


@pytest.mark.parametrize("start", range(0, INSTANCES, CHUNK))
def test_every_split_is_the_oracles(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = range(start, start + CHUNK)
    proven = proofs(seeds)
    assert proven > CHUNK // 2
    monkeypatch.setattr(pages, "MOST_ENDS", 0)
    assert CHUNK // 4 < proofs(seeds) < proven - CHUNK // 16


def test_beyond_its_limit_cp_sat_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [shared_row_problem(seed) for seed in range(CHUNK // 2)]
    monkeypatch.setattr(pages, "MOST_ENDS", 0)
    certificates = set()
    for seed, problem in enumerate(problems):
        truth = best(problem)
        if truth is not None:
            answer = plan(problem)
            assert (answer.status, found(answer)) == ("optimal", expected(truth)), seed
            certificates.add(answer.proof.certificate)
    assert "cp-sat" in certificates


POOLS = [{"name": "p", "bytes": 7, "granule": 16}, {"name": "q", "bytes": 11, "granule": 20}]


@pytest.mark.parametrize(
    ("terms", "least"),
    [
        ({"blocks:p": 1, "blocks:q": 1}, 12),
        ({"blocks:p": 2, "blocks:q": 3}, 25),
        ({"blocks:p": 3, "blocks:q": 2}, 36),
        ({"blocks:p": 1, "experts": 5}, 14),
    ],
)
@pytest.mark.parametrize("goals", [[], ["blocks:p"], ["blocks:q"], ["experts", "blocks:p"]])
def test_a_floor_for_two_is_split_as_the_goals_want(
    terms: dict[str, Any], least: int, goals: Any
) -> None:
    row = [{"terms": terms, "min": least}]
    experts = {"slot_bytes": 5, "max_slots": 4}
    problem = micro(104, pools=POOLS, experts=experts, constraints=row, goals=goals, fill="none")
    answer = agreed(problem)
    assert plan(problem, solver="bisect").proof.certificate == "nested"
    assert found(answer) == expected(best(problem))
