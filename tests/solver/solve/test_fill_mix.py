"""Fill by a mix of lengths: as much of it as fits, an exact multiple, perhaps below one."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.solver import plan
from kvplan.solver.check import Check, Decisions
from kvplan.solver.report import report
from kvplan.solver.verify import violations
from support.bad import refused as lines
from support.micro import micro
from support.solvers import agreed

POOLS = [{"name": "a", "bytes": 10}, {"name": "b", "bytes": 5}]
CACHES = [
    {"name": "full", "pool": "a", "kind": "full"},
    {"name": "state", "pool": "b", "kind": "state"},
]


def mixed(*entries: tuple[int, Any], quota: int = 100, **sections: Any) -> Problem:
    """Blocks of 4 tokens and 10 bytes, states of 5; (capacity, share) of each length."""
    mix = [{"capacity": capacity, "share": share} for capacity, share in entries]
    return micro(quota, **{"pools": POOLS, "caches": CACHES, "fill": {"mix": mix}, **sections})


def test_the_largest_multiple_by_hand() -> None:
    """A copy takes 3/2 + 4/2 blocks of a and 1 state: 8 blocks hold 16/7, 9 with 3 are 105 B."""
    answer = agreed(mixed((12, "1/2"), (16, "1/2"), quota=104))
    assert (answer.scale, answer.blocks) == (Fraction(16, 7), {"a": 8, "b": 3})
    assert agreed(mixed((12, "1/2"), (16, "1/2"), quota=105)).scale == Fraction(18, 7)


def test_what_is_left_goes_to_the_pools_as_by_default() -> None:
    answer = agreed(mixed((12, 1), pools=[{**POOLS[0], "bytes": 5}, {**POOLS[1], "bytes": 60}]))
    assert (answer.scale, answer.blocks) == (1, {"a": 8, "b": 1})


def test_it_may_be_below_one_copy() -> None:
    """40 blocks and a state of 405 B; 35 B hold 3 blocks and a state, 3/40 of it."""
    answer = agreed(mixed((160, 1), quota=35))
    assert (answer.scale, answer.blocks) == (Fraction(3, 40), {"a": 3, "b": 1})
    assert agreed(mixed((160, 1), quota=14)).scale == 0


def test_the_utilization_divides_before_the_one_ceil() -> None:
    """s x 3 / (9/10) blocks: 9 blocks hold s = 27/10, which in whole blocks in use were 8/3."""
    problem = mixed((12, 1), resume_utilization=0.9, pools=POOLS[:1], caches=CACHES[:1])
    assert agreed(mixed((12, 1), quota=0)).scale == 0
    assert agreed(problem).scale == 3
    assert agreed(micro(90, **sections_of(problem))).scale == Fraction(27, 10)


def sections_of(problem: Problem) -> dict[str, Any]:
    data = problem.model_dump(mode="json", exclude_unset=True)
    return {key: value for key, value in data.items() if key != "ranks"}


def test_floors_limits_and_multiples() -> None:
    pools = [{**POOLS[0], "multiple_of": 2, "max_blocks": 6}, {**POOLS[1], "min_blocks": 3}]
    answer = agreed(mixed((12, 1), quota=1000, pools=pools))
    assert (answer.scale, answer.blocks) == (2, {"a": 6, "b": 3})


def test_a_flight_and_a_window_are_those_of_one_request_alone() -> None:
    caches = [
        {
            "name": "flight",
            "pool": "a",
            "kind": "chunked",
            "chunk": 8,
            "in_flight": 4,
            "in_flight_per": "batch",
        },
        {"name": "live", "pool": "b", "kind": "window", "keep": "live", "window": 8},
    ]
    answer = agreed(mixed((40, "1/3"), caches=caches, quota=205))
    # 2 + 1 blocks of a and 2 of b a request: 15 of a and 10 of b are 200 B.
    assert answer.scale == 15


def test_a_constraint_on_blocks_bounds_it() -> None:
    rows = [{"terms": {"blocks:a": 1, "blocks:b": 1}, "max": 6}]
    answer = agreed(mixed((12, 1), constraints=rows))
    assert (answer.scale, answer.blocks) == (Fraction(4, 3), {"a": 4, "b": 2})
    assert answer.proof.bound[0].goal == "scale"


def test_ranks_and_granules() -> None:
    ranks = [{"name": "r0", "quota": 100}, {"name": "r1", "quota": 64}]
    pools = [{**POOLS[0], "granule": 32}, POOLS[1]]
    answer = agreed(mixed((12, 1), ranks=ranks, pools=pools))
    assert (answer.scale, answer.blocks) == (1, {"a": 3, "b": 1})


@pytest.mark.parametrize("solver", ["auto", "bisect"])
def test_figures_beyond_64_bits(solver: Any) -> None:
    """Shares whose common denominator is no machine integer; CP-SAT is not asked."""
    shares = ["12345678901/98765432109", "98765432107/99999999999"]
    problem = mixed((400, shares[0]), (1200, shares[1]), quota=2**50)
    answer = plan(problem, solver=solver)
    need = 100 * Fraction(shares[0]) + 300 * Fraction(shares[1])
    assert answer.scale is not None
    blocks = -(-answer.scale * need // 1)
    states = -(-answer.scale * (Fraction(shares[0]) + Fraction(shares[1])) // 1)
    assert 10 * blocks + 5 * states <= 2**50
    assert answer.scale in (blocks / need, states / sum(map(Fraction, shares)))
    assert plan(problem, solver="cp-sat").digest == answer.digest


def test_the_plan_says_it_exactly_and_verify_notices_another() -> None:
    problem = mixed((160, 1), quota=35)
    answer = plan(problem)
    text = answer.model_dump_json()
    assert json.loads(text)["scale"] == "3/40"
    assert violations(problem, Plan.model_validate_json(text)) == []
    wrong = answer.model_copy(update={"scale": Fraction(1, 10)})
    assert any("scale: expected 3/40, got 1/10" in line for line in violations(problem, wrong))
    decided = Decisions((3, 1), (), None, (), None, None, None, Fraction(1, 10))
    assert Check(problem).broken(decided) == ["the blocks hold 3/40 of the fill mix, not 1/10"]
    assert "3/40" in report(answer, problem)


def test_resize_fills_again() -> None:
    answer = plan(mixed((160, 1), quota=35))
    assert answer.resize(45).scale == Fraction(4, 40)


@pytest.mark.parametrize(
    ("fill", "line"),
    [
        ({"mix": []}, "fill.mix: expected at least one length, got none"),
        (
            {"mix": [{"capacity": 4, "history": 5, "share": 1}]},
            "fill.mix[0].history: expected history of at most capacity 4, got 5",
        ),
        (
            {"mix": [{"capacity": 4, "share": 0}]},
            "fill.mix[0].share: expected a share above 0 and at most 1, got 0",
        ),
        (
            {"mix": [{"capacity": 4, "share": 1}], "none": True},
            "fill: expected one of batch, pools, shares, mix or none, got mix and none",
        ),
    ],
)
def test_bad_mixes(fill: Any, line: str) -> None:
    assert lines({"ranks": [{"name": "r", "quota": 1}], "fill": fill}) == [line]


def test_a_mix_takes_blocks() -> None:
    with pytest.raises(InvalidProblem, match="a mix that takes blocks, got none"):
        plan(mixed((0, 1), caches=CACHES[:1]))
