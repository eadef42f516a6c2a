"""The written-out check accepts what the walk over all rules accepts, and nothing else."""

from __future__ import annotations

import random

import pytest

from kvplan.kernels.nested import Search
from kvplan.kernels.values import Point
from kvplan.models import InvalidProblem
from kvplan.solver.check import broken_rules
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.unrolled import unrolled_check
from support.straight import straight_problem


def near(rng: random.Random, point: Point) -> Point:
    """The point, or one a little off it."""
    usable = [max(0, blocks + rng.choice((0, 0, 0, 0, 1, -1, 7))) for blocks in point.usable]
    capacities = [tokens + rng.choice((0, 0, 0, 1, -1, 40)) for tokens in point.capacities]
    counts = [count + rng.choice((0, 0, 0, 0, 1)) for count in point.counts]
    return point._replace(
        usable=tuple(usable),
        capacities=tuple(max(1, tokens) for tokens in capacities),
        counts=tuple(counts),
    )


@pytest.mark.parametrize("part", range(4))
def test_it_accepts_what_breaks_no_rule(part: int) -> None:
    right = wrong = 0
    for seed in range(500 * part, 500 * part + 500):
        try:
            nested = Search(formulate(straight_problem(seed)).instance)
        except InvalidProblem:
            continue
        instance, direct = nested.instance, nested.direct
        answer = direct and direct.answer([row.limit_bytes for row in instance.budgets])
        if not answer:
            continue
        holds, rng = unrolled_check(instance, nested.demand), random.Random(seed)
        rooms = [row.limit_bytes for row in instance.every_budget]
        assert holds(answer.point, rooms), seed
        for _ in range(6):
            point = near(rng, answer.point)
            less = [room - rng.choice((0, 0, 0, 5)) for room in rooms]
            expected = next(broken_rules(instance, nested.demand, point, less), None) is None
            expected &= point.counts == answer.point.counts  # it is no variable
            assert holds(point, less) == expected, seed
            right, wrong = right + expected, wrong + (not expected)
    assert min(right, wrong) > 100
