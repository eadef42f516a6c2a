"""One line for each value that was reduced, word for word; and what may surprise."""

from __future__ import annotations

from typing import Any

from support.micro import micro, one, pool
from support.solvers import agreed

MIB = 2**20
STAGING = [{"name": "s", "per_token": 64 * 1024}]
PREFILL = {"requested": 24576, "min": 256, "step": 256, "staging": STAGING}


def notes(*args: Any, **sections: Any) -> list[str]:
    return [*agreed(micro(*args, **sections)).notes]


def test_nothing_reduced_is_nothing_said() -> None:
    assert notes(100, **one(8)) == []


def test_a_chunk_that_was_clamped() -> None:
    """24,576 tokens of 64 KiB are 1,536 MiB, 512 MiB hold 8,192."""
    weights = [{"name": "weights", "bytes": "488MiB"}]
    assert notes(1000 * MIB, prefill=PREFILL, consumers=weights) == [
        "prefill: requested 24576, clamped to 8192: "
        "limited by rank r0 in prefill (1.00 GiB short of 24576)"
    ]


def test_a_capacity_that_was_clamped() -> None:
    assert notes(56, **one(77, fit="capacity")) == [
        "capacity:q: requested 77, clamped to 20: limited by rank r0 in prefill (144 B short of 77)"
    ]


def test_a_count_that_was_clamped() -> None:
    assert notes(56, **one(8, fit="count", count=9)) == [
        "count:q: requested 9, clamped to 2: limited by rank r0 in prefill (124 B short of 9)"
    ]
    assert notes(56, **one(8, fit="count")) == []  # nothing was asked


def test_slots_that_were_clamped_or_are_open() -> None:
    assert notes(100, experts={"slot_bytes": 10, "max_slots": 12}) == [
        "experts: requested 12, clamped to 10: limited by rank r0 in prefill (20 B short of 12)"
    ]
    assert notes(100, experts={"slot_bytes": 10}) == [
        "experts: no max_slots, so they take whatever earlier goals leave"
    ]


def test_an_option_that_fell_back() -> None:
    options = [
        {"name": "dense", "bytes": "1352MiB", "phases": ["prefill"]},
        {"name": "tiled", "bytes": "676MiB", "phases": ["prefill"]},
        {"name": "none"},
    ]
    choices = [{"name": "scratch", "options": options}]
    assert notes(1000 * MIB, choices=choices, **pool(bytes=MIB)) == [
        "choice:scratch: best dense, fell back to tiled: "
        "limited by rank r0 in prefill (352.00 MiB short of dense)"
    ]


def test_the_rank_and_phase_that_are_short_are_named() -> None:
    ranks = [{"name": "r0", "quota": 90}, {"name": "r1", "quota": 100}]
    late = [{"name": "late", "bytes": {"r1": 25}, "phases": ["decode"]}]
    assert notes(ranks=ranks, consumers=late, **one(77, fit="capacity")) == [
        "capacity:q: requested 77, clamped to 28: limited by rank r1 in decode (125 B short of 77)"
    ]


def test_a_pool_at_its_limit_is_named_before_any_rank() -> None:
    assert notes(100, **one(77, fit="capacity"), **pool(max_blocks=6)) == [
        "capacity:q: requested 77, clamped to 24: "
        "limited by pool p (20 usable blocks needed for 77, max_blocks is 6)"
    ]


def test_a_goal_of_higher_priority_counts_as_taken() -> None:
    prefill = {"requested": 40, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 1}]}
    experts = {"slot_bytes": 10, "max_slots": 8}
    sections: dict[str, Any] = {"prefill": prefill, "experts": experts, "fill": "none"}
    assert notes(100, **sections) == [
        "experts: requested 8, clamped to 6: limited by rank r0 in prefill (20 B short of 8)"
    ]
    assert notes(100, goals=["experts"], **sections) == [
        "prefill: requested 40, clamped to 20: limited by rank r0 in prefill (20 B short of 40)"
    ]


def test_a_constraint_that_rules_a_value_out_is_named() -> None:
    experts = {"slot_bytes": 10, "max_slots": 8}
    limit = [{"terms": {"experts": 1}, "max": 3}]
    assert notes(1000, experts=experts, constraints=limit) == [
        "experts: requested 8, clamped to 3: "
        "ruled out by a goal of higher priority or a linear constraint"
    ]


def test_an_option_of_lower_priority_would_give_way() -> None:
    """36 B more are enough for 40 tokens, with the poorer option."""
    choices = [{"name": "w", "options": [{"name": "x", "bytes": 4}, {"name": "y"}]}]
    sections: dict[str, Any] = {"choices": choices, "fill": "none", **one(40, fit="capacity")}
    assert agreed(micro(100, **sections)).requests[0].capacity == 40
    assert notes(64, **sections) == [
        "capacity:q: requested 40, clamped to 24: limited by rank r0 in prefill (36 B short of 40)"
    ]


def test_every_reduced_value_has_its_line_in_a_fixed_order() -> None:
    requests = [
        {"name": "c", "capacity": 40, "fit": "capacity"},
        {"name": "n", "capacity": 4, "fit": "count", "count": 3},
    ]
    answer = agreed(
        micro(
            64,
            batches=[{"name": "b", "requests": requests}],
            prefill={
                "requested": 40,
                "min": 4,
                "step": 4,
                "staging": [{"name": "s", "per_token": 1}],
            },
            experts={"slot_bytes": 10, "max_slots": 8},
            choices=[{"name": "w", "options": [{"name": "x", "bytes": 30}, {"name": "y"}]}],
        )
    )
    firsts = [note.split(":")[0] for note in answer.notes]
    assert firsts == ["capacity", "count", "choice", "prefill", "experts"]


def test_requests_without_caches_take_nothing_and_a_note_says_so() -> None:
    said = "caches: none given, so requests take no blocks"
    assert notes(100, caches=[], **one(1000)) == [said]
    assert notes(100, caches=[]) == []
