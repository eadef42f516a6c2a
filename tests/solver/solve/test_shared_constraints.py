"""Linear rows that two members can mend: CP-SAT and the mended search against the oracle."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, Plan, Problem, Undecided
from kvplan.solver import plan
from kvplan.solver.oracle import best, check
from support.decisions import expected, found
from support.micro import micro
from support.shared_constraints import shared_row_problem
from support.solvers import agreed

INSTANCES = 1_024
CHUNK = 128


def searched(problem: Problem) -> Plan | None:
    """What the search finds by itself; None where it finds nothing."""
    try:
        return plan(problem, solver="bisect")
    except (Infeasible, Undecided):
        return None


@pytest.mark.parametrize("start", range(0, INSTANCES, CHUNK))
def test_every_split_is_the_oracles(start: int) -> None:
    mended = feasible = 0
    for seed in range(start, start + CHUNK):
        problem = shared_row_problem(seed)
        truth, answer = best(problem), searched(problem)
        feasible += truth is not None
        if answer is not None:
            mended += 1
            assert truth is not None, seed
            assert check(problem, answer) == [], seed
            assert answer.status == "feasible" or found(answer) == expected(truth), seed
        try:
            assert found(plan(problem)) == expected(truth), seed
        except Infeasible:
            assert truth is None, seed
    assert mended > feasible * 0.7


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
    assert found(agreed(problem)) == expected(best(problem))
