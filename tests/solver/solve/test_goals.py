"""Ordered and weighted goals: what is won, what is held, and who decides a tie."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvplan.models import Problem, SolverError
from kvplan.models.goals import curve_value
from kvplan.solver import plan
from support.micro import micro, one, pool
from support.solvers import agreed, values_of

CHUNKS = range(4, 41, 4)
SLOTS = range(9)
PREFILL = {
    "requested": 40,
    "min": 4,
    "step": 4,
    "staging": [{"name": "s", "per_token": 1}],
}


def traded(*goals: Any, quota: int = 100, **sections: Any) -> Problem:
    """Tokens of the chunk take a byte each, up to eight slots take 10."""
    experts = {"slot_bytes": 10, "max_slots": 8}
    return micro(quota, prefill=PREFILL, experts=experts, goals=[*goals], fill="none", **sections)


def reached(problem: Problem) -> tuple[int | None, int | None]:
    answer = agreed(problem)
    return answer.prefill_chunk, answer.expert_slots


# --- ordered ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goals", "expected"),
    [
        ((), (40, 6)),  # by default the chunk goes before the slots
        (("prefill",), (40, 6)),
        (("experts",), (20, 8)),
        (("experts", "prefill"), (20, 8)),
    ],
)
def test_an_earlier_goal_gives_nothing_back(goals: Any, expected: tuple[int, int]) -> None:
    assert reached(traded(*goals)) == expected


def test_blocks_before_a_capacity_leave_it_at_its_lower_bound() -> None:
    fitted = one(40, fit="capacity", min_capacity=8)
    pools = [{"name": "p", "bytes": 10}, {"name": "q", "bytes": 10}]
    greedy = agreed(micro(pools=pools, goals=["blocks:q"], **fitted))
    assert (greedy.blocks, greedy.requests[0].capacity) == ({"p": 2, "q": 8}, 8)
    modest = agreed(micro(pools=pools, **fitted))
    assert (modest.blocks, modest.requests[0].capacity) == ({"p": 10, "q": 0}, 40)


def test_fitted_requests_follow_in_the_order_written() -> None:
    requests: list[dict[str, Any]] = [
        {"name": "n", "capacity": 4, "fit": "count", "count": 4},
        {"name": "c", "capacity": 40, "fit": "capacity"},
    ]
    first: dict[str, Any] = {"batches": [{"name": "b", "requests": requests}]}
    assert [(r.capacity, r.count) for r in agreed(micro(**first)).requests] == [(4, 4), (24, 1)]
    turned: dict[str, Any] = {"batches": [{"name": "b", "requests": requests[::-1]}]}
    assert [(r.capacity, r.count) for r in agreed(micro(80, **turned)).requests] == [
        (28, 1),
        (4, 1),
    ]


def test_the_better_option_is_a_goal_before_chunk_and_slots() -> None:
    options = [{"name": "dense", "bytes": 30}, {"name": "tiled", "bytes": 5}]
    choices = [{"name": "scratch", "options": options}]
    answer = agreed(traded(choices=choices))
    assert (answer.choices, answer.prefill_chunk, answer.expert_slots) == (
        {"scratch": "dense"},
        40,
        3,
    )
    answer = agreed(traded("prefill", "experts", choices=choices))
    assert (answer.choices, answer.prefill_chunk, answer.expert_slots) == (
        {"scratch": "tiled"},
        40,
        5,
    )
    assert values_of(answer)["choice:scratch"] == -1


def test_the_earlier_choice_gets_its_better_option() -> None:
    options = [{"name": "best", "bytes": 60}, {"name": "good", "bytes": 40}, {"name": "poor"}]
    choices = [{"name": name, "options": options} for name in ("a", "b")]
    assert agreed(micro(choices=choices)).choices == {"a": "best", "b": "good"}
    assert agreed(micro(choices=choices, goals=["choice:b"])).choices == {"a": "good", "b": "best"}
    assert agreed(micro(90, choices=choices)).choices == {"a": "best", "b": "poor"}


# --- weighted -----------------------------------------------------------------------------------


def best_sums(
    weights: tuple[Any, Any], curve: list[list[int]] | None = None
) -> tuple[Fraction, list[tuple[int, int]]]:
    """The best weighted sum over everything that fits in 100 B, and where it is reached."""
    points = None if curve is None else tuple((Fraction(x), Fraction(y)) for x, y in curve)
    sums = {
        (chunk, slots): Fraction(weights[0]) * (curve_value(points, chunk) if points else chunk)
        + Fraction(weights[1]) * slots
        for chunk in CHUNKS
        for slots in SLOTS
        if chunk + 10 * slots <= 100
    }
    best = max(sums.values())
    return best, [place for place, value in sums.items() if value == best]


CURVE = [[8, 0], [16, 80], [40, 92]]
DIPPED = [[8, 90], [20, 10], [32, 100]]


@pytest.mark.parametrize("weights", [(1, 3), (1, 11), ("1/2", "7/2"), (-1, 3), (1, -3), (0, 3)])
@pytest.mark.parametrize("curve", [None, CURVE, DIPPED])
def test_a_weighted_goal_is_the_best_sum(weights: tuple[Any, Any], curve: Any) -> None:
    goal: dict[str, Any] = {"maximize": dict(zip(("prefill", "experts"), weights, strict=True))}
    if curve is not None:
        goal["curves"] = {"prefill": curve}
    best, places = best_sums(weights, curve)
    answer = agreed(traded(goal))
    assert (answer.prefill_chunk, answer.expert_slots) == max(places)
    assert answer.proof.bound[0].value == answer.proof.bound[0].bound == best


def test_weights_and_curves_move_the_best_sum() -> None:
    """By hand: 40 + 18, 20 + 88; on the curve 92 + 6 x 3, and 82 + 8 x 8 (slot by slot)."""
    found = [best_sums((1, 3)), best_sums((1, 11)), best_sums((1, 3), CURVE)]
    found.append(best_sums((1, 8), CURVE))
    assert [int(best) for best, _ in found] == [58, 108, 110, 146]
    assert [places for _, places in found] == [[(40, 6)], [(20, 8)], [(40, 6)], [(20, 8)]]


def test_a_weighted_goal_holds_its_value_and_the_next_goal_decides_the_tie() -> None:
    """Ten tokens of the chunk and one slot are worth the same: (40, 6) or (20, 8)."""
    even = {"maximize": {"prefill": 1, "experts": 10}}
    assert best_sums((1, 10))[1] == [(20, 8), (40, 6)]
    assert reached(traded(even)) == (40, 6)
    assert reached(traded(even, "experts")) == (20, 8)


def wide(goal: Any, *later: str, quota: int = 100) -> Problem:
    """A count of requests of 10 B against slots of 7 B: two variables with many values."""
    experts = {"slot_bytes": 7, "max_slots": 12}
    requests = one(4, fit="count", count=9)
    return micro(quota, experts=experts, goals=[goal, *later], fill="none", **requests)


def counted(problem: Problem) -> tuple[int, int | None]:
    answer = agreed(problem)
    return answer.requests[0].count, answer.expert_slots


STEEP = [[2, 0], [4, 9], [7, 10]]
HOLLOW = [[1, 9], [4, 0], [8, 20]]


@pytest.mark.parametrize("weights", [(10, 7), (11, 7), (10, 8), (3, 2), ("1/2", "1/3"), (1, 0)])
@pytest.mark.parametrize("curves", [{}, {"count:q": STEEP}, {"experts": HOLLOW}])
def test_two_wide_variables_against_every_pair(
    weights: tuple[Any, Any], curves: dict[str, Any]
) -> None:
    first, second = map(Fraction, weights)

    def worth(name: str, at: int) -> Fraction:
        points = tuple((Fraction(x), Fraction(y)) for x, y in curves.get(name, ()))
        return curve_value(points, at) if points else Fraction(at)

    sums = {
        (count, slots): first * worth("count:q", count) + second * worth("experts", slots)
        for count in range(1, 10)
        for slots in range(13)
        if 10 * count + 7 * slots <= 100
    }
    best = max(sums.values())
    places = [place for place, value in sums.items() if value == best]
    goal: dict[str, Any] = {"maximize": {"count:q": weights[0], "experts": weights[1]}}
    if curves:
        goal["curves"] = curves
    assert counted(wide(goal)) == max(places)
    assert counted(wide(goal, "experts")) == max(places, key=lambda place: place[::-1])
    assert plan(wide(goal)).proof.bound[0].value == best


def test_a_search_without_a_proof_says_so_and_bounds_what_it_found() -> None:
    goal = {"maximize": {"count:q": 10, "experts": 7}, "curves": {"experts": HOLLOW}}
    searched = plan(wide(goal), solver="bisect")
    assert searched.status == searched.proof.status == "feasible"
    assert searched.proof.certificate == "search"
    first, *rest = searched.proof.bound
    assert first.bound is not None
    assert first.value <= plan(wide(goal)).proof.bound[0].value <= first.bound
    assert all(later.bound is None for later in rest)


def test_blocks_can_be_weighed_too() -> None:
    pools = [{"name": "p", "bytes": 7}, {"name": "q", "bytes": 11}]
    goal = {"maximize": {"blocks:p": 7, "blocks:q": 12}}
    sums = {7 * p + 12 * q: (p, q) for p in range(15) for q in range(10) if 7 * p + 11 * q <= 100}
    answer = agreed(micro(pools=pools, goals=[goal], fill="none"))
    assert values_of(answer)["7 blocks:p + 12 blocks:q"] == max(sums)
    assert tuple(answer.blocks.values()) == sums[max(sums)]


def test_a_goal_of_usable_blocks_leaves_out_the_reserved_ones() -> None:
    answer = agreed(micro(goals=["blocks:p"], **pool(reserved_blocks=3)))
    assert (answer.blocks, values_of(answer)) == ({"p": 10}, {"blocks:p": 7})


# --- one variable with a weight of its own --------------------------------------------------------


@pytest.mark.parametrize("weight", ["3", "1/2", "5/3"])
@pytest.mark.parametrize("variable", ["capacity:q", "blocks:p", "prefill", "experts"])
def test_a_weighted_variable_is_worth_its_weight(variable: str, weight: str) -> None:
    """Every solver writes weight x value, which the oracle's own check holds against it."""
    problem = traded({"maximize": {variable: weight}}, **one(40, fit="capacity"))
    values = {
        solver: plan(problem, solver=solver).proof.bound[0]
        for solver in ("auto", "cp-sat", "bisect")
    }
    assert set(values.values()) == {values["auto"]}
    assert values["auto"].value == values["auto"].bound
    assert values["auto"] == agreed(problem).proof.bound[0]


@pytest.mark.parametrize("weight", [1, 2, 3])
def test_a_weighted_variable_under_a_constraint_has_its_plan(weight: int) -> None:
    """Ten blocks; each of p that holds 4 tokens takes another one of s beside it."""
    problem = micro(
        goals=[{"maximize": {"capacity:q": weight}}],
        pools=[{"name": "p", "bytes": 10}, {"name": "s", "bytes": 10}],
        constraints=[{"terms": {"capacity:q": 1, "blocks:s": -4}, "max": 0}],
        **one(40, fit="capacity"),
    )
    answer = agreed(problem)
    assert (answer.requests[0].capacity, answer.blocks) == (20, {"p": 5, "s": 5})
    assert answer.proof.bound[0].value == 20 * weight


def test_what_a_goal_is_worth_has_no_bound() -> None:
    """Weights and counts are below 2^63 each; their products are not."""
    pools = [{"name": "p", "bytes": 2}, {"name": "q", "bytes": 1}]
    weights = {"blocks:p": 2**62, "blocks:q": 2**62 - 1}
    problem = micro(10_239, pools=pools, caches=[], goals=[{"maximize": weights}])
    answer = plan(problem)
    assert (answer.status, answer.blocks) == ("feasible", {"p": 0, "q": 10_239})
    [goal] = answer.proof.bound
    assert goal.value == 10_239 * (2**62 - 1) <= goal.bound
    assert type(answer).model_validate_json(answer.model_dump_json()) == answer
    with pytest.raises(SolverError, match="leave CP-SAT's 64-bit range"):
        plan(problem, solver="cp-sat")
