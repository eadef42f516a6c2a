"""Who gets the rest: whole copies of a batch, pools in order, shares, or nobody."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.models.plan import Solver
from kvplan.solver import plan
from kvplan.solver.oracle import check
from support.micro import micro
from support.solvers import agreed, values_of

POOLS = [{"name": "a", "bytes": 10}, {"name": "b", "bytes": 5}]
CACHES = [
    {"name": "full", "pool": "a", "kind": "full"},
    {"name": "state", "pool": "b", "kind": "state"},
]
TYPICAL = {"name": "typical", "requests": [{"capacity": 12}]}  # 3 blocks of a, 1 of b: 35 B


def filled(fill: Any, quota: int = 100, **sections: Any) -> Problem:
    base = {"pools": POOLS, "caches": CACHES, "batches": [TYPICAL]}
    return micro(quota, **{**base, **sections, **({} if fill is None else {"fill": fill})})


# --- none, and pools in order -------------------------------------------------------------------


def test_none_leaves_the_rest_free() -> None:
    answer = agreed(filled("none"))
    assert (answer.blocks, answer.ranks[0].slack) == ({"a": 3, "b": 1}, 65)


def test_by_default_pools_without_state_take_the_rest() -> None:
    answer = agreed(filled(None))
    assert (answer.blocks, answer.copies) == ({"a": 9, "b": 1}, None)
    assert not [note for note in answer.notes if note.startswith("fill")]


def test_pools_are_filled_in_the_order_named() -> None:
    assert agreed(filled({"pools": ["b", "a"]})).blocks == {"a": 3, "b": 14}
    assert agreed(filled({"pools": ["a", "b"]}, 104)).blocks == {"a": 9, "b": 2}
    assert agreed(filled({"pools": ["b"]}, 104)).blocks == {"a": 3, "b": 14}


def test_of_two_growing_pools_the_first_takes_the_rest_and_a_note_says_so() -> None:
    caches = [{"name": "full", "pool": "a", "kind": "full"}]
    caches.append({"name": "also", "pool": "b", "kind": "full"})
    answer = agreed(filled(None, 109, caches=caches))
    assert answer.blocks == {"a": 9, "b": 3}
    assert answer.notes == (
        "fill: a takes what is left, then b what a cannot use (set fill to change this)",
    )
    assert agreed(filled({"pools": ["a", "b"]}, 109, caches=caches)).notes == ()


def test_the_note_is_silent_where_a_goal_decides_the_later_pool() -> None:
    caches = [{"name": "full", "pool": "a", "kind": "full"}]
    caches.append({"name": "also", "pool": "b", "kind": "full"})
    goals = [{"maximize": {"blocks:b": 1}}]
    assert agreed(filled(None, 109, caches=caches, goals=goals)).notes == ()


# --- whole copies of a batch --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quota", "copies", "blocks"),
    [
        (35, 1, {"a": 3, "b": 1}),
        (69, 1, {"a": 6, "b": 1}),
        (70, 2, {"a": 6, "b": 2}),
        (105, 3, {"a": 9, "b": 3}),
        (139, 3, {"a": 12, "b": 3}),
    ],
)
def test_copies_go_first_and_blocks_after(quota: int, copies: int, blocks: dict[str, int]) -> None:
    answer = agreed(filled({"batch": "typical"}, quota))
    assert (answer.copies, answer.blocks) == (copies, blocks)
    assert values_of(answer)["copies:typical"] == copies


def test_copies_obey_the_resume_utilization_of_each_pool() -> None:
    pools = [POOLS[0], {**POOLS[1], "resume_headroom": False}]
    answer = agreed(filled({"batch": "typical"}, 245, pools=pools, resume_utilization="3/4"))
    # k copies take ceil(3 k / 0.75) = 4 k of a and k of b: 45 B each.
    assert (answer.copies, answer.blocks) == (5, {"a": 22, "b": 5})


@pytest.mark.parametrize(("blocks", "copies"), [(4, 1), (6, 1), (7, 2), (9, 2), (10, 3)])
def test_copies_are_rounded_up_together(blocks: int, copies: int) -> None:
    """k copies of 3 blocks take ceil(3 k / 0.9) = 4, 7, 10."""
    pools = [{"name": "a", "bytes": 10}]
    answer = agreed(
        filled(
            {"batch": "typical"},
            10 * blocks + 9,
            pools=pools,
            caches=CACHES[:1],
            resume_utilization=0.9,
        )
    )
    assert (answer.copies, answer.blocks) == (copies, {"a": blocks})


def test_a_prefix_is_paid_once_a_copy() -> None:
    batch = {"name": "typical", "shared_prefix": 8, "requests": [{"capacity": 12, "count": 2}]}
    answer = agreed(filled({"batch": "typical"}, 150, batches=[batch]))
    # 2 shared blocks and one for each of two requests, 2 states: 50 B.
    assert (answer.copies, answer.blocks) == (3, {"a": 12, "b": 6})


def test_copies_count_what_fitting_decided() -> None:
    batch = {"name": "typical", "requests": [{"capacity": 20, "fit": "capacity"}]}
    answer = agreed(filled({"batch": "typical"}, 110, batches=[batch]))
    assert (answer.copies, answer.blocks) == (2, {"a": 10, "b": 2})


def test_copies_of_another_batch_than_the_largest() -> None:
    large = {"name": "large", "requests": [{"capacity": 28}]}
    answer = agreed(filled({"batch": "typical"}, 140, batches=[TYPICAL, large]))
    assert (answer.copies, answer.blocks) == (4, {"a": 12, "b": 4})
    answer = agreed(filled({"batch": "large"}, 140, batches=[TYPICAL, large]))
    assert (answer.copies, answer.blocks) == (1, {"a": 13, "b": 1})


def test_copies_as_a_goal_and_in_a_constraint() -> None:
    options = [{"name": "x", "bytes": 40}, {"name": "y"}]
    choices = [{"name": "w", "options": options}]
    assert agreed(filled(None, choices=choices)).choices == {"w": "x"}
    first = agreed(filled("none", choices=choices, goals=["copies:typical"]))
    assert (first.choices, first.blocks) == ({"w": "y"}, {"a": 6, "b": 2})
    twice = [{"terms": {"copies:typical": 1}, "min": 2}]
    second = agreed(filled("none", choices=choices, constraints=twice))
    assert (second.choices, second.blocks) == ({"w": "y"}, {"a": 6, "b": 2})


# --- shares -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "blocks"),
    [
        ({"a": 0.8, "b": 0.2}, {"a": 8, "b": 4}),
        ({"a": "2/3", "b": "1/3"}, {"a": 6, "b": 6}),  # floors of 66 and 33 B
        ({"a": 0.5, "b": 0.1}, {"a": 5, "b": 2}),  # what they leave stays free
        ({"a": 0.1, "b": 0.9}, {"a": 3, "b": 14}),  # a floor above its share stays
        ({"b": 0.9, "a": 0.1}, {"a": 3, "b": 14}),
        ({"b": 1}, {"a": 3, "b": 14}),  # a at its floor is no part of the rest
        ({"b": 0.5}, {"a": 3, "b": 7}),
        ({"a": 0}, {"a": 3, "b": 1}),
    ],
)
def test_shares_of_what_all_others_leave(shares: Any, blocks: dict[str, int]) -> None:
    assert agreed(filled({"shares": shares})).blocks == blocks


@pytest.mark.parametrize(("size", "held"), [(66, 1), (67, 0)])
def test_a_share_is_rounded_down_to_whole_bytes(size: int, held: int) -> None:
    """Two thirds of 100 B are 66."""
    pools = [{"name": "a", "bytes": size}]
    problem = filled({"shares": {"a": "2/3"}}, pools=pools, caches=CACHES[:1], batches=[])
    assert agreed(problem).blocks == {"a": held}


def test_a_later_share_pool_takes_what_floors_leave() -> None:
    tall = [{"name": "typical", "requests": [{"capacity": 36}]}]  # 9 blocks of a
    assert agreed(filled({"shares": {"b": 1}}, batches=tall)).blocks == {"a": 9, "b": 2}
    answer = agreed(filled({"shares": {"a": 0.5, "b": 0.5}}, batches=tall))
    assert answer.blocks == {"a": 9, "b": 2}


def test_shares_count_reserved_blocks_granules_and_multiples() -> None:
    pools = [
        {"name": "a", "bytes": 10, "reserved_blocks": 2, "multiple_of": 2},
        {"name": "b", "bytes": 5, "granule": 16},
    ]
    answer = agreed(filled({"shares": {"a": 0.7, "b": 0.3}}, pools=pools))
    # 80 B beside the reserved blocks. 5 blocks of a: 4 usable ones; 24 B of b are one page.
    assert answer.blocks == {"a": 6, "b": 3}


def test_reserved_blocks_stand_outside_shares() -> None:
    """4 of a's blocks are reserved: 60 B of 100 are shared, 30 B each; not 50 B, 4 of them a's."""
    pools = [{"name": "a", "bytes": 10, "reserved_blocks": 4}, {"name": "b", "bytes": 10}]
    problem = filled({"shares": {"a": "1/2", "b": "1/2"}}, pools=pools, batches=[])
    assert agreed(problem).blocks == {"a": 7, "b": 3}
    if importlib.util.find_spec("torch") is not None:
        assert plan(problem, solver="bisect", device="cpu").blocks == {"a": 7, "b": 3}


def test_shares_are_of_the_tightest_rank_and_phase() -> None:
    ranks = [{"name": "r0", "quota": 100}, {"name": "r1", "quota": 80}]
    late = [{"name": "late", "bytes": {"r0": 40}, "phases": ["encode"]}]
    answer = agreed(
        filled({"shares": {"a": 0.5, "b": 0.5}}, ranks=ranks, consumers=late, batches=[])
    )
    assert answer.blocks == {"a": 3, "b": 6}  # halves of 60 B


def test_shares_come_after_the_goals_and_before_the_slots_that_stay() -> None:
    experts = {"slot_bytes": 10, "max_slots": 4, "lend": {"keep": 1, "fraction": 1}}
    prefill = {"requested": 4, "staging": [{"name": "s", "base": 30}]}
    shares = {"shares": {"a": "1/2", "b": "1/2"}}
    answer = agreed(filled(shares, experts=experts, prefill=prefill))
    # Decode leaves 60 B beside four slots, prefill 60 B beside one: 30 B each.
    assert answer.blocks == {"a": 3, "b": 6}
    assert (answer.expert_slots, answer.expert_slots_in_prefill) == (4, 1)


@pytest.mark.parametrize("shares", [{"a": "1/2"}, {"a": "1/2", "b": "1/4"}, {"b": "1/4", "a": 0}])
@pytest.mark.parametrize("solver", ["auto", "cp-sat", "bisect"])
@pytest.mark.parametrize("deadline", [None, 1e-4])
def test_a_plan_without_proof_keeps_the_shares_too(
    shares: Any, solver: Solver, deadline: float | None
) -> None:
    """A goal that trades a against b leaves the split to the shares, proven or not.

    A pool whose share comes later gives way to an earlier one up to that one's share only.
    """
    goals = [{"maximize": {"blocks:a": 1, "blocks:b": 1}}]
    pools = [{"name": "a", "bytes": 1}, {"name": "b", "bytes": 1}]
    problem = filled({"shares": shares}, 64, pools=pools, caches=[], batches=[], goals=goals)
    assert check(problem, plan(problem, solver=solver, deadline=deadline)) == []


def test_a_mended_plan_holds_no_more_above_a_share_than_its_constraint_needs() -> None:
    """Copies are held for the constraint first; beside more slots, fewer of them do."""
    requests = [
        {"name": "q", "capacity": 40, "fit": "count", "count": 40},
        {"name": "z", "capacity": 120, "history": 120},
    ]
    problem = micro(
        2988,
        tokens_per_block=3,
        pools=[{"name": "a", "bytes": 5}, {"name": "b", "bytes": 2}],
        experts={"slot_bytes": 2, "max_slots": 60},
        constraints=[{"terms": {"experts": 1, "copies:typical": 3}, "min": 100}],
        fill={"shares": {"a": "1/3", "b": "1/3"}},
        caches=[
            {"name": "c", "pool": "a", "kind": "window", "keep": "in_flight", "window": 42}
            | {"in_flight": 1, "in_flight_per": "batch"}
        ],
        batches=[{"name": "typical", "requests": requests}],
    )
    assert check(problem, plan(problem, solver="bisect")) == []


# --- last ---------------------------------------------------------------------------------------


def test_a_pool_that_nothing_raises_stays_at_its_smallest_legal_count() -> None:
    pools = [POOLS[0], {**POOLS[1], "multiple_of": 4, "reserved_blocks": 1}]
    answer = agreed(filled(None, pools=pools))
    assert (answer.blocks, answer.floors) == ({"a": 7, "b": 5}, {"a": 3, "b": 4})
