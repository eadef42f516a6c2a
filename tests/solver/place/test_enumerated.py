"""Small problems of every form against an enumeration that is written from the format alone.

Own, next and any cards; mirrors, copied inputs, unequal shares, experts one by one, hops, rows,
ends with spaces, drafts, buffers by token, windows and states among layers, two requests, quotas
that are short by a byte.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver import plan
from kvplan.solver.verify import violations
from support.placement_enumeration import Enumeration, Layout
from support.placement_problems import drawn_problem

SEEDS = 30  # of each test


def layout_of(data: dict[str, object], answer: Plan) -> Layout:
    """Where a plan puts what."""
    placement = answer.placement
    assert placement is not None
    own = tuple(space.name for space in placement.spaces for _ in range(space.layers))
    place = data["place"]
    assert isinstance(place, dict)
    is_pinned = place["ends"].get("last", {}).get("spaces")
    output = own[-1] if is_pinned else placement.last
    return Layout(own, output, placement.experts, placement.pipelined)


def outcome(seed: int, solver: str) -> str:
    """Hold one problem's answer against the enumeration."""
    data = drawn_problem(random.Random(seed))
    problem = Problem.model_validate(data)
    if problem.place is not None and problem.place.is_staged:
        return "staged"
    rules = Enumeration(data)
    want = rules.best()
    try:
        answer = plan(problem, solver="cp-sat" if solver == "cp-sat" else "auto")
    except Infeasible:
        assert want is None, seed
        return "refused"
    layout = layout_of(data, answer)
    capacities = tuple(request.capacity for request in answer.requests)
    assert rules.fits(layout, capacities), seed
    assert rules.told(layout, capacities) == want, seed
    assert answer.placement is not None
    assert answer.placement.proven, seed
    assert violations(problem, answer) == [], seed
    return "planned"


@pytest.mark.parametrize("first", range(0, 600, SEEDS))
def test_the_search_finds_the_best(first: int) -> None:
    told = Counter(outcome(seed, "auto") for seed in range(first, first + SEEDS))
    assert told["planned"] > 8
    assert told["refused"] > 2


@pytest.mark.parametrize("first", range(0, 60, SEEDS))
def test_cpsat_confirms_it(first: int) -> None:
    told = Counter(outcome(seed, "cp-sat") for seed in range(first, first + SEEDS))
    assert told["planned"] > 8


def test_a_mirror_alone_takes_no_buffers() -> None:
    """CP-SAT charged the host's buffers where every expert in use is on a card."""
    assert outcome(1589, "auto") == "planned"
