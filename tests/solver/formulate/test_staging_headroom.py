"""A prefill headroom that is the modelled staging: charged once, in every phase."""

from __future__ import annotations

from typing import Any

import pytest

from support.micro import micro, one
from support.solvers import agreed, refused

HUNDRED: dict[str, Any] = {"prefill": {"requested": 8, "staging": [{"name": "s", "base": 100}]}}
SLOTS = {"slot_bytes": 10, "max_slots": 200, "lend": {"keep": 0, "fraction": 1}}


def measured(utilization: Any, headroom: Any, free: int = 1000) -> list[dict[str, Any]]:
    memory = {"total": 1000, "free": free, "utilization": utilization}
    return [{"name": "r0", "memory": {**memory, "prefill_headroom": headroom}}]


@pytest.mark.parametrize("utilization", [0.85, 0.9])
def test_it_changes_nothing_while_the_utilization_leaves_it(utilization: float) -> None:
    plain = agreed(micro(ranks=measured(utilization, 0), experts=SLOTS, **HUNDRED))
    staged = agreed(micro(ranks=measured(utilization, "from_staging"), experts=SLOTS, **HUNDRED))
    assert plain.digest == staged.digest
    assert plain.expert_slots == int(utilization * 100)


def test_it_is_charged_once_in_every_phase() -> None:
    """The staging lies beside 90 slots in decode; in prefill slots are lent to make room."""
    plain = agreed(micro(ranks=measured(0.95, 0), experts=SLOTS, **HUNDRED))
    assert (plain.expert_slots, plain.expert_slots_in_prefill) == (95, 85)
    staged = agreed(micro(ranks=measured(0.95, "from_staging"), experts=SLOTS, **HUNDRED))
    assert (staged.expert_slots, staged.expert_slots_in_prefill) == (90, 85)
    assert staged.ranks[0].quota == 950


def test_it_counts_beside_the_load_too() -> None:
    weights = {"name": "weights", "bytes": 920, "phases": ["load"]}
    problem = micro(ranks=measured(0.95, "from_staging"), consumers=[weights], **HUNDRED)
    short = refused(problem).shortfall
    assert [tuple(entry) for entry in short] == [("r0", "load", 20)]


def test_pools_alone_feel_it_once() -> None:
    """Pools live beside the staging anyway: 850 B with or without the headroom."""
    for headroom, free in ((0, 1000), ("from_staging", 1000), ("from_staging", 950)):
        ranks = measured(0.95, headroom, free)
        assert agreed(micro(ranks=ranks, **HUNDRED, **one(4))).blocks == {"p": 85}


def test_a_rank_without_a_free_reading_has_no_headroom_to_fill() -> None:
    memory = {"total": 1000, "utilization": 0.95, "prefill_headroom": "from_staging"}
    ranks = [{"name": "r0", "memory": memory}]
    answer = agreed(micro(ranks=ranks, experts=SLOTS, **HUNDRED))
    assert (answer.expert_slots, answer.expert_slots_in_prefill) == (95, 85)
