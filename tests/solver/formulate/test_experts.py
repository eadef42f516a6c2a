"""Expert slots: sizes, layers, granules, and what prefill borrows."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Problem
from support.micro import micro
from support.solvers import agreed, refused


def slots(quota: int = 100, base: int = 0, **fields: Any) -> Problem:
    """Slots beside a fixed staging; nothing else grows."""
    sections: dict[str, Any] = {"experts": {"slot_bytes": 10, **fields}, "fill": "none"}
    if base:
        sections["prefill"] = {"requested": 4, "staging": [{"name": "s", "base": base}]}
    return micro(quota, **sections)


def placed(problem: Problem) -> tuple[int | None, int | None]:
    answer = agreed(problem)
    return answer.expert_slots, answer.expert_slots_in_prefill


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, 10),
        ({"max_slots": 7}, 7),
        ({"layers": 3}, 3),
        ({"granule": 64}, 6),
        ({"layers": 3, "granule": 64}, 2),
        ({"slot_bytes": [[2, 30], [3, 5], [9, 10]]}, 7),  # 60 + 15 + 20 B
        ({"slot_bytes": [[1, 30], [1, 30], [3, 5], [1, 10], [8, 10]]}, 7),
        ({"slot_bytes": [[2, 3], [3, 5]]}, 5),  # all that have a size
        ({"slot_bytes": [[2, 3], [3, 5]], "max_slots": 4}, 4),
    ],
)
def test_slots_take_what_is_left(fields: dict[str, Any], count: int) -> None:
    assert placed(slots(**fields)) == (count, count)


def test_a_floor_of_slots_that_does_not_fit_is_refused() -> None:
    assert placed(slots(min_slots=10)) == (10, 10)
    short = refused(slots(min_slots=11)).shortfall
    assert [tuple(entry) for entry in short] == [("r0", "prefill", 10), ("r0", "decode", 10)]


def test_layers_by_stage_the_heaviest_rank_rules() -> None:
    ranks = [{"name": "a", "stage": 0, "quota": 100}, {"name": "b", "stage": 1, "quota": 90}]
    experts = {"slot_bytes": 10, "layers": {"0": 2, "1": 3}}
    answer = agreed(micro(ranks=ranks, experts=experts, fill="none"))
    assert answer.expert_slots == 3
    bare = {"slot_bytes": 10, "layers": {"0": 2, "1": 0}}
    answer = agreed(micro(ranks=ranks, experts=bare, fill="none"))
    assert answer.expert_slots == 5
    assert [rank.used for rank in answer.ranks] == [100, 0]


# --- lending: Strata #796 -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "lend", "expected"),
    [
        (30, None, (7, 7)),
        (30, {"keep": 0, "fraction": 1}, (10, 7)),
        (25, {"keep": 0, "fraction": 1}, (10, 7)),
        (30, {"keep": 8, "fraction": 1}, (7, 7)),  # an eighth would have to stay
        (30, {"keep": 7, "fraction": 1}, (10, 7)),
        (30, {"keep": 0, "fraction": 0.3}, (10, 7)),
        (30, {"keep": 0, "fraction": 0.29}, (9, 7)),  # floor(2.9) = floor(2.61) = 2 may go
        (30, {"keep": 0, "fraction": "1/4"}, (9, 7)),
        (30, {"keep": 0, "fraction": 0}, (7, 7)),
        (100, {"keep": 0, "fraction": 1}, (10, 0)),
        (0, {"keep": 0, "fraction": 1}, (10, 10)),
    ],
)
def test_slots_that_prefill_borrows(
    base: int, lend: dict[str, Any] | None, expected: tuple[int, int]
) -> None:
    assert placed(slots(base=base, lend=lend)) == expected


def test_as_many_slots_as_fit_stay_during_prefill() -> None:
    """Lending is for the chunk that was chosen, not for the largest that could be."""
    staging = [{"name": "s", "per_token": 1}]
    prefill = {"requested": 24, "min": 4, "step": 4, "staging": staging}
    experts = {"slot_bytes": 10, "max_slots": 9, "lend": {"keep": 2, "fraction": 1}}
    answer = agreed(micro(95, experts=experts, prefill=prefill, fill="none"))
    assert (answer.prefill_chunk, answer.expert_slots, answer.expert_slots_in_prefill) == (24, 9, 7)


def test_kept_slots_of_several_sizes_and_a_granule() -> None:
    sized = {"slot_bytes": [[2, 30], [8, 5]], "granule": 8, "lend": {"keep": 0, "fraction": 1}}
    # 60 + 8 x 5 = 100 B are 104 in pages; beside 40 B of staging 64 B hold 2 slots.
    assert placed(slots(104, base=40, **sized)) == (10, 2)
    assert placed(slots(103, base=40, **sized)) == (9, 1)
    assert placed(slots(104, base=36, **sized)) == (10, 2)
    assert placed(slots(104, base=32, **sized)) == (10, 4)


def test_blocks_are_the_same_in_prefill_and_only_slots_are_lent() -> None:
    prefill = {"requested": 4, "staging": [{"name": "s", "base": 30}]}
    experts = {"slot_bytes": 10, "max_slots": 5, "lend": {"keep": 1, "fraction": 1}}
    answer = agreed(micro(100, prefill=prefill, experts=experts))
    assert (answer.blocks, answer.expert_slots, answer.expert_slots_in_prefill) == ({"p": 5}, 5, 2)
