"""Which rank and phase stops what, the bytes free there, and what one step more needs."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible
from kvplan.solver import plan
from support.instances import small_problem
from support.micro import micro, one, pool
from support.solvers import agreed


def binding(*args: Any, **sections: Any) -> dict[tuple[str, str], tuple[int, dict[str, int]]]:
    answer = agreed(micro(*args, **sections))
    return {(b.rank, b.phase): (b.slack, b.next) for b in answer.binding}


@pytest.mark.parametrize("free", [0, 1, 9])
def test_one_more_block_needs_its_bytes(free: int) -> None:
    assert binding(100 + free) == {
        ("r0", "prefill"): (free, {"blocks:p": 10}),
        ("r0", "decode"): (free, {"blocks:p": 10}),
    }


def test_one_more_block_needs_its_page_or_its_multiple() -> None:
    assert binding(100, **pool(granule=32)) == {
        ("r0", "prefill"): (4, {"blocks:p": 32}),
        ("r0", "decode"): (4, {"blocks:p": 32}),
    }
    assert binding(100, **pool(multiple_of=4)) == {
        ("r0", "prefill"): (20, {"blocks:p": 40}),
        ("r0", "decode"): (20, {"blocks:p": 40}),
    }


def test_the_tightest_rank_binds_and_the_others_do_not() -> None:
    ranks = [{"name": f"r{index}", "quota": quota} for index, quota in enumerate((105, 95, 99))]
    assert binding(ranks=ranks) == {
        ("r1", "prefill"): (5, {"blocks:p": 10}),
        ("r1", "decode"): (5, {"blocks:p": 10}),
        ("r2", "prefill"): (9, {"blocks:p": 10}),
        ("r2", "decode"): (9, {"blocks:p": 10}),
    }


def test_a_phase_that_is_fuller_binds_alone() -> None:
    late = [{"name": "late", "bytes": 30, "phases": ["decode"]}]
    assert binding(100, consumers=late) == {("r0", "decode"): (0, {"blocks:p": 10})}


def test_every_variable_that_wants_to_grow_is_listed_where_it_is_short() -> None:
    prefill = {"requested": 40, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 2}]}
    requests = one(77, fit="capacity", min_capacity=20)
    found = binding(109, prefill=prefill, goals=["prefill"], **requests)
    # 50 B for 20 tokens leave the chunk 28 of them 56 B, the last 3 B nobody.
    assert found == {
        ("r0", "prefill"): (3, {"prefill": 8, "capacity:q": 10, "blocks:p": 10}),
    }


def test_a_pool_at_its_limit_binds_nowhere() -> None:
    assert binding(100, **pool(max_blocks=6)) == {}


def test_nothing_that_wants_to_grow_is_nothing_that_binds() -> None:
    assert binding(100, fill="none", **one(8)) == {}


def test_ranks_and_phases_come_in_their_order() -> None:
    ranks = [{"name": name, "quota": 100} for name in ("z", "a")]
    phases = [{"name": "w", "bytes": 0, "phases": ["encode", "capture"]}]
    found = binding(ranks=ranks, consumers=phases)
    order = [(r, p) for r in "za" for p in ("prefill", "decode", "encode", "capture")]
    assert [*found] == order


@pytest.mark.parametrize("seed", range(60))
def test_what_binds_has_less_free_than_a_step_needs(seed: int) -> None:
    try:
        answer = plan(small_problem(seed, constraints=False))
    except Infeasible:
        return
    by_name = {rank.name: rank for rank in answer.ranks}
    for entry in answer.binding:
        free = by_name[entry.rank].quota - by_name[entry.rank].phases[entry.phase]
        assert 0 <= entry.slack == free
        assert entry.next
        assert all(entry.slack < needed for needed in entry.next.values())
