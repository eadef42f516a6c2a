"""Floors beside the lines of a budget: what each consumer takes at least, whatever is chosen."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from kvplan.solver.report.elastic_lines import budget_lines
from support.instances import small_problem
from support.micro import micro, one, pool

MIB = 2**20


def floors(problem: Problem) -> dict[tuple[str, str], int | None]:
    lines = budget_lines(plan(problem).ranks, problem)
    return {(line["rank"], line["consumer"]): line["floor"] for line in lines}


def test_the_floor_of_a_choice_is_what_its_smallest_option_takes() -> None:
    options = [
        {"name": "dense", "bytes": 1352 * MIB, "phases": ["prefill"]},
        {"name": "tiled", "bytes": 676 * MIB, "phases": ["prefill"]},
    ]
    choices = [{"name": "scratch", "options": options}]
    for quota in (1000 * MIB, 4000 * MIB):  # whichever is taken
        problem = micro(quota, choices=choices, **pool(bytes=MIB), **one(8))
        found = floors(problem)
        assert {v for k, v in found.items() if k[1].startswith("scratch=")} == {676 * MIB}


def test_an_option_that_lives_nowhere_takes_nothing() -> None:
    options = [{"name": "dense", "bytes": 50}, {"name": "none"}]
    found = floors(micro(100, choices=[{"name": "s", "options": options}]))
    assert found["r0", "s=dense"] == 0


@pytest.mark.parametrize("seed", [*range(120), 568, 669, 1056, 1253])
def test_nothing_takes_less_than_its_floor(seed: int) -> None:
    problem = small_problem(seed)
    try:
        answer = plan(problem)
    except Infeasible:
        return
    for line in budget_lines(answer.ranks, problem):
        assert line["floor"] is None or line["floor"] <= line["bytes"], line
