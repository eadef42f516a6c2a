"""A problem as integers: requests, goals in order, constraints, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvplan.kernels.instance import (
    BatchRequests,
    FixedRequests,
    GivenRequests,
    LinearConstraint,
    Variable,
)
from kvplan.models import InvalidProblem, Problem
from kvplan.solver import plan
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.oracle import best
from support.instance import instance_of, raw_of, windows
from support.micro import cache, micro, one

# --- requests -----------------------------------------------------------------------------------


def test_alike_requests_are_added_up_and_absent_ones_left_out() -> None:
    requests = [
        {"capacity": 8},
        {"capacity": 8, "history": 7, "count": 3},
        {"capacity": 8, "history": 6},
        {"capacity": 9, "count": 0},
        {"capacity": 0, "count": 2},
    ]
    instance = instance_of(micro(batches=[{"name": "b", "requests": requests}]))
    given = (FixedRequests(8, 7, 4), FixedRequests(8, 6, 1), FixedRequests(0, 0, 2))
    assert instance.batches == (BatchRequests("b", 0, given, ()),)


def test_many_requests_are_columns_that_read_like_rows() -> None:
    requests = [{"capacity": 8 + k, "history": k, "count": 1 + k % 2} for k in range(30)]
    (batch,) = instance_of(micro(batches=[{"name": "b", "requests": requests}])).batches
    rows = [FixedRequests(8 + k, k, 1 + k % 2) for k in range(30)]
    assert isinstance(batch.fixed, GivenRequests)
    assert [*batch.fixed] == rows
    assert (len(batch.fixed), batch.fixed[3], batch.fixed[2:4]) == (30, rows[3], (*rows[2:4],))


def test_of_many_requests_absent_ones_hold_no_flight() -> None:
    """Thirty placeholders, and one absent request that would be the only one with attention."""
    requests = [{"capacity": 0}] * 30 + [{"capacity": 8, "count": 0}]
    caches = [
        {"name": "c", "kind": "window", "window": 4, "keep": "in_flight", "in_flight": 9}
        | {"in_flight_per": "batch"}
    ]
    assert raw_of(micro(caches=caches, batches=[{"name": "b", "requests": requests}])) == [0]
    requests[-1]["count"] = 1
    assert raw_of(micro(caches=caches, batches=[{"name": "b", "requests": requests}])) != [0]


def test_requests_without_a_name_are_named_by_batch_and_index() -> None:
    requests = [{"capacity": 8}, {"capacity": 8, "fit": "capacity"}, {"name": "q", "capacity": 1}]
    formulation = formulate(micro(batches=[{"name": "b", "requests": requests}]))
    assert formulation.request_names == (("b.0", "b.1", "q"),)
    assert formulation.instance.fitted[0].name == "b.1"


@pytest.mark.parametrize(
    ("fields", "prefix", "least"),
    [
        ({}, 0, 1),
        ({"history": 90}, 0, 10),
        ({"min_capacity": 33}, 0, 33),
        ({"history": 90, "min_capacity": 4}, 0, 10),
        ({"history": 90}, 21, 31),
        ({"history": 90, "min_capacity": 33}, 21, 33),
        ({"history": 100}, 0, 1),
    ],
)
def test_the_lower_bound_of_a_fitted_capacity(
    fields: dict[str, Any], prefix: int, least: int
) -> None:
    request = {"capacity": 100, "fit": "capacity", **fields}
    batches = [{"name": "b", "shared_prefix": prefix, "requests": [request]}]
    fitted = instance_of(micro(batches=batches)).fitted[0]
    assert (fitted.least, fitted.most, fitted.flight) == (
        least,
        100,
        100 - fields.get("history", 99),
    )


def test_a_fitted_count_is_bounded_by_what_was_asked_or_by_the_quota() -> None:
    asked = instance_of(micro(**one(8, fit="count", count=6, min_count=2))).fitted[0]
    assert (asked.is_count, asked.least, asked.most, asked.capacity) == (True, 2, 6, 8)
    assert instance_of(micro(**one(8, fit="count"))).fitted[0].most is None


# --- goals and constraints ----------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "pools": [{"name": "p", "bytes": 10}, {"name": "q", "bytes": 10}, {"name": "s", "bytes": 10}],
    "caches": [
        {"name": "cp", "pool": "p", "kind": "full"},
        {"name": "cs", "pool": "s", "kind": "state"},
        {"name": "cq", "pool": "q", "kind": "full"},
    ],
    "batches": [
        {
            "name": "b",
            "requests": [
                {"name": "n", "capacity": 4, "fit": "count", "count": 2},
                {"name": "c", "capacity": 40, "fit": "capacity"},
            ],
        },
        {"name": "late", "requests": [{"name": "d", "capacity": 40, "fit": "capacity"}]},
    ],
    "choices": [{"name": "w", "options": [{"name": "x"}, {"name": "y"}]}],
    "prefill": {"requested": 8},
    "experts": {"slot_bytes": 10, "max_slots": 3},
}
DEFAULT = ["count:n", "capacity:c", "capacity:d", "choice:w", "prefill", "experts"]


def labels(**sections: Any) -> list[str]:
    return [
        goal.label for goal in instance_of(micro(1000, **{**EVERYTHING, **sections})).objectives
    ]


def test_default_goals_then_fill_follow_in_their_order() -> None:
    assert labels() == [*DEFAULT, "blocks:p", "blocks:q"]
    assert instance_of(micro(1000, **EVERYTHING)).fill_from == len(DEFAULT)


def test_goals_of_the_user_come_first_and_are_not_repeated() -> None:
    first = ["experts", "capacity:d", "blocks:q"]
    rest = [label for label in DEFAULT if label not in first]
    assert labels(goals=first) == [*first, *rest, "blocks:p"]


def test_members_of_a_weighted_goal_follow_as_default_goals() -> None:
    weighted = {"maximize": {"prefill": 1, "experts": 3}}
    assert labels(goals=[weighted]) == ["1 prefill + 3 experts", *DEFAULT, "blocks:p", "blocks:q"]


@pytest.mark.parametrize(
    ("fill", "last"),
    [
        ("none", []),
        ({"pools": ["q", "s"]}, ["blocks:q", "blocks:s"]),
        ({"batch": "late"}, ["copies:late", "blocks:p", "blocks:q"]),
        ({"shares": {"p": "1/2"}}, []),
    ],
)
def test_goals_of_fill(fill: Any, last: list[str]) -> None:
    assert labels(fill=fill) == [*DEFAULT, *last]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (
            {"terms": {"blocks:p": 4, "blocks:q": -5}, "min": 0, "max": 4},
            LinearConstraint(
                ((4, Variable("blocks", 0), -1), (-5, Variable("blocks", 1), -1)), 0, 4
            ),
        ),
        (
            {"terms": {"prefill": "1/2", "experts": "-3/4"}, "min": "1/3", "max": "5/3"},
            LinearConstraint(((2, Variable("prefill"), -1), (-3, Variable("experts"), -1)), 2, 6),
        ),
        (
            {"terms": {"prefill": 1}, "min": "-1/2", "max": "-1/2"},
            LinearConstraint(((1, Variable("prefill"), -1),), 0, -1),
        ),
        (
            {"terms": {"choice:w=y": 2, "copies:late": 1}, "min": 1},
            LinearConstraint(
                ((2, Variable("choice", 0), 1), (1, Variable("copies", 1), -1)), 1, None
            ),
        ),
    ],
)
def test_a_constraint_in_whole_numbers(constraint: Any, expected: LinearConstraint) -> None:
    """Coefficients are scaled; a bound that is not whole is rounded to the inside."""
    instance = instance_of(micro(1000, **EVERYTHING, constraints=[constraint]))
    assert instance.constraints == (expected,)


def test_shares_stay_exact() -> None:
    instance = instance_of(micro(1000, **EVERYTHING, fill={"shares": {"q": 0.8, "p": "1/9"}}))
    assert instance.fill_shares == ((1, Fraction(4, 5)), (0, Fraction(1, 9)))


# --- what only shows in the whole ---------------------------------------------------------------


def fault(**sections: Any) -> str:
    with pytest.raises(InvalidProblem) as caught:
        formulate(micro(**sections))
    return str(caught.value)


def test_an_open_count_of_requests_that_take_no_block_is_refused() -> None:
    assert fault(**one(0, fit="count")) == (
        "batches[0].requests[0].count: expected a count, since the request takes no block, got none"
    )
    assert instance_of(micro(**one(0, fit="count"), **cache(kind="state"))).fitted[0].most is None


def test_copies_of_a_batch_that_takes_no_block_are_refused() -> None:
    text = "batches[0]: expected a batch that takes blocks, for its copies, got 'b'"
    assert fault(**one(0), fill={"batch": "b"}) == text
    assert fault(**one(0), goals=["copies:b"]) == text
    assert fault(**one(0), constraints=[{"terms": {"copies:b": 1}, "min": 0}]) == text


def test_copies_of_a_batch_whose_need_can_fall_to_nothing_end() -> None:
    """A window of one token at H = C: 1 block at 1 token, none at 4, where nothing is copied."""
    alone = {**one(8, 8, fit="capacity"), "caches": windows(4, 1)}
    problem = Problem.model_validate(micro(**alone, goals=["copies:b"]))
    truth = best(problem)
    assert truth is not None
    assert dict(zip(truth.labels, truth.goals, strict=True))["copies:b"] > 0
    for solver in ("auto", "cp-sat"):
        assert plan(problem, solver=solver).blocks == dict(truth.blocks)


def test_too_many_combinations_of_options_are_refused() -> None:
    options = [{"name": f"o{index}"} for index in range(17)]
    choices = [{"name": f"w{index}", "options": options} for index in range(3)]
    assert fault(choices=choices) == (
        "choices: expected at most 4096 combinations of options, got 4913"
    )
