"""Linear rows that two members can mend: the search against the exhaustive oracle."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, SolverError
from kvplan.solver import plan
from kvplan.solver.oracle import best, check
from support.decisions import expected, found
from support.micro import micro
from support.shared_rows import shared_row_problem
from support.solvers import agreed

INSTANCES = 1_024
CHUNK = 128


@pytest.mark.parametrize("start", range(0, INSTANCES, CHUNK))
def test_every_plan_is_the_oracles(start: int) -> None:
    plans = 0
    for seed in range(start, start + CHUNK):
        problem = shared_row_problem(seed)
        truth = best(problem)
        if truth is None:
            with pytest.raises(Infeasible):
                plan(problem)
            continue
        plans += 1
        answer = plan(problem)
        assert (answer.status, found(answer)) == ("optimal", expected(truth)), seed
    assert plans > CHUNK // 4


@pytest.mark.parametrize("start", range(0, INSTANCES, CHUNK))
def test_the_search_alone_claims_no_more_than_it_proves(start: int) -> None:
    for seed in range(start, start + CHUNK):
        problem = shared_row_problem(seed)
        try:
            answer = plan(problem, solver="bisect")
        except Infeasible:
            assert best(problem) is None, seed
        except SolverError:  # it found no point that obeys, and says so
            continue
        else:
            assert check(problem, answer) == [], seed
            if answer.status == "optimal":
                assert found(answer) == expected(best(problem)), seed


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
    assert found(answer) == expected(best(problem))
