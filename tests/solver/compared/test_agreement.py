"""Engines against each other: random problems, and the shipped cases at parts of their quotas."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem, Undecided
from kvplan.solver import plan
from support.cases import CASES, load
from support.instances import small_problem
from support.solvers import SOLVERS

FIRST, PROBLEMS, CHUNK = 1_000_000, 320, 32  # apart from the seeds that meet the oracle
PARTS = ("0.3", "0.45", "0.6", "0.8", "1")


def outcome(problem: Problem, solver: Any) -> tuple[str, Any]:
    """Proven with a digest, refused with a shortfall, or open."""
    try:
        answer = plan(problem, solver=solver)
    except Infeasible as refusal:
        return "refused", (refusal.reasons, refusal.shortfall)
    except Undecided:
        assert solver == "bisect"
        assert problem.constraints
        return "open", None
    if answer.status == "feasible":
        assert solver == "bisect"
        return "open", None
    return "proven", answer.digest


@pytest.mark.parametrize("start", range(FIRST, FIRST + PROBLEMS, CHUNK))
def test_engines_agree_on_random_problems(start: int) -> None:
    for seed in range(start, start + CHUNK):
        problem = small_problem(seed)
        auto, cpsat, bisect = (outcome(problem, solver) for solver in SOLVERS)
        assert auto == cpsat, seed
        assert bisect[0] == "open" or bisect == auto, seed


def at_part(problem: Problem, part: Fraction) -> Problem:
    """The problem with this part of every rank's quota."""
    ranks = [
        {"name": rank.name, "stage": rank.stage, "quota": int(rank.quota_bytes * part)}
        for rank in problem.ranks
    ]
    data = problem.model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate({**data, "ranks": ranks})


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", CASES)
def test_engines_agree_on_shipped_cases_at_parts_of_their_quotas(name: str, part: str) -> None:
    problem = at_part(load(name), Fraction(part))
    auto, cpsat, bisect = (outcome(problem, solver) for solver in SOLVERS)
    assert auto == cpsat == bisect
    assert auto[0] in ("proven", "refused")
