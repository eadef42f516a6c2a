"""Linear constraints: on pools, chunk, slots, capacities and options."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.solver import plan
from support.micro import micro, one
from support.solvers import agreed

PREFILL = {
    "requested": 40,
    "min": 4,
    "step": 4,
    "staging": [{"name": "s", "per_token": 1}],
}


def traded(**sections: Any) -> Problem:
    """Tokens of the chunk take a byte each, up to eight slots take 10."""
    experts = {"slot_bytes": 10, "max_slots": 8}
    return micro(100, prefill=PREFILL, experts=experts, fill="none", **sections)


def reached(problem: Problem) -> tuple[int | None, int | None]:
    answer = agreed(problem)
    return answer.prefill_chunk, answer.expert_slots


def test_a_ratio_of_pools_is_kept() -> None:
    """blocks:full : blocks:swa = 5 : 4, as an engine with a fixed ratio would have it."""
    pools = [{"name": "p", "bytes": 3}, {"name": "q", "bytes": 5}]
    ratio = {"terms": {"blocks:p": 4, "blocks:q": -5}, "min": 0, "max": 4}
    answer = agreed(micro(pools=pools, constraints=[ratio], goals=["blocks:q"]))
    fitting = [
        (q, p)
        for p in range(34)
        for q in range(21)
        if 3 * p + 5 * q <= 100 and 0 <= 4 * p - 5 * q <= 4
    ]
    assert (answer.blocks["q"], answer.blocks["p"]) == max(fitting)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"terms": {"prefill": 1}, "max": 27}, (24, 7)),
        ({"terms": {"prefill": 1, "experts": -4}, "max": 0}, (28, 7)),
        ({"terms": {"experts": 1}, "min": 7}, (28, 7)),
        ({"terms": {"prefill": "1/2", "experts": "1/3"}, "max": 9}, (16, 3)),
        ({"terms": {"experts": 2}, "min": 5, "max": 5}, None),
    ],
)
def test_chunk_and_slots_under_a_constraint(constraint: Any, expected: Any) -> None:
    problem = traded(constraints=[constraint])
    if expected is None:
        with pytest.raises(Exception, match="the linear constraints cannot hold together"):
            plan(problem)
        return
    assert reached(problem) == expected


def test_a_constraint_on_a_capacity_stops_it_between_two_blocks() -> None:
    """The last token that is allowed is no block boundary, whatever the window."""
    windows = [{"name": "w", "kind": "window", "keep": "live", "window": 6, "tokens_per_block": 3}]
    for most in range(4, 15):
        limit = [{"terms": {"capacity:q": 1}, "max": most}]
        problem = micro(caches=windows, constraints=limit, **one(15, fit="capacity"))
        assert agreed(problem).requests[0].capacity == most


def test_slots_that_a_constraint_asks_for_stay_within_max_slots() -> None:
    experts = {"slot_bytes": 1, "max_slots": 3}
    tied = [{"terms": {"experts": 1, "blocks:p": -1}, "min": -5}]
    answer = agreed(micro(1000, experts=experts, constraints=tied, goals=["blocks:p"]))
    assert (answer.expert_slots, answer.blocks) == (3, {"p": 8})


def test_an_option_counts_one_in_a_constraint() -> None:
    options = [{"name": "x"}, {"name": "y"}]
    choices = [{"name": "w", "options": options}]
    only_y = [{"terms": {"choice:w=y": 1}, "min": 1}]
    assert agreed(micro(choices=choices, constraints=only_y)).choices == {"w": "y"}
    either = [{"terms": {"choice:w=x": 7, "prefill": 1}, "max": 40}]
    answer = agreed(traded(choices=choices, constraints=either))
    assert (answer.choices, answer.prefill_chunk) == ({"w": "x"}, 32)
