"""Budgets: granules that follow the quota, staging, consumers, and the rows of all ranks."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.kernels.instance import Budget
from kvplan.models import Problem
from kvplan.solver.formulate.budgets import (
    auto_granule,
    build_budgets,
    merge_budgets,
    staging_bytes,
)
from support.micro import micro, pool
from support.solvers import agreed

MIB, GIB = 2**20, 2**30


def rows_of(problem: Problem, **granules: int) -> dict[tuple[int, str], Budget]:
    """Rows by rank and phase, headroom rows left out."""
    found: dict[tuple[int, str], Budget] = {}
    for row in build_budgets(problem, granules, {}):
        found.setdefault((row.rank, row.phase), row)
    return found


# --- "auto" granules: TensorRT-LLM KVCacheManagerV2, cache_tier_granularity ----------------------


@pytest.mark.parametrize(
    ("quota", "granule"),
    [
        (-5, 2 * MIB),
        (0, 2 * MIB),
        (1, 2 * MIB),
        (GIB - 1, 2 * MIB),
        (GIB, 2 * MIB),
        (2 * GIB - 1, 2 * MIB),
        (2 * GIB, 4 * MIB),
        (4 * GIB - 1, 4 * MIB),
        (4 * GIB, 8 * MIB),
        (8 * GIB - 1, 8 * MIB),
        (8 * GIB, 16 * MIB),
        (16 * GIB - 1, 16 * MIB),
        (16 * GIB, 32 * MIB),
        (32 * GIB, 32 * MIB),
        (2**62, 32 * MIB),
    ],
)
def test_the_auto_granule_steps_at_powers_of_two(quota: int, granule: int) -> None:
    assert auto_granule(quota) == granule


def test_every_rank_has_the_auto_granule_of_its_own_quota() -> None:
    ranks = [{"name": "small", "quota": "2GiB"}, {"name": "large", "quota": "16GiB"}]
    problem = micro(ranks=ranks, **pool(bytes=MIB, granule="auto"))
    rows = rows_of(problem)
    assert rows[0, "decode"].pools == (((MIB, 4 * MIB),),)
    assert rows[1, "decode"].pools == (((MIB, 32 * MIB),),)


def test_a_held_granule_stays() -> None:
    problem = micro(ranks=[{"name": "a", "quota": "2GiB"}], **pool(bytes=MIB, granule="auto"))
    assert rows_of(problem, a=32 * MIB)[0, "decode"].pools == (((MIB, 32 * MIB),),)
    assert rows_of(problem, b=32 * MIB)[0, "decode"].pools == (((MIB, 4 * MIB),),)


@pytest.mark.parametrize(
    ("quota", "blocks"), [(4 * GIB - 1, 1023 * 4 // 3), (4 * GIB, 512 * 8 // 3), (6 * MIB - 1, 1)]
)
def test_blocks_fill_whole_pages_of_the_auto_granule(quota: int, blocks: int) -> None:
    """Blocks of 3 MiB on pages of 4, 8 and 2 MiB."""
    assert agreed(micro(quota, **pool(bytes=3 * MIB, granule="auto"))).blocks == {"p": blocks}


def test_crossing_a_step_more_quota_can_hold_less() -> None:
    """800 buffers of one byte a block: 1,023 pages of 2 MiB hold one each, 512 of 4 MiB do not."""
    tiny = [{"name": f"b{index}", "bytes": 1, "granule": "auto"} for index in range(800)]
    assert agreed(micro(2 * GIB - 1, **pool(buffers=tiny))).blocks == {"p": 2 * MIB}
    assert agreed(micro(2 * GIB, **pool(buffers=tiny))).blocks == {"p": 0}


# --- staging ------------------------------------------------------------------------------------


def prefill(*staging: dict[str, Any], **fields: Any) -> dict[str, Any]:
    entries = [{"name": f"s{index}", **entry} for index, entry in enumerate(staging)]
    return {"prefill": {"requested": 8, "min": 4, "step": 4, "staging": entries, **fields}}


RANKS = [{"name": "a", "stage": 0, "quota": 100}, {"name": "b", "stage": 1, "quota": 100}]


def staged(stage: int, *staging: dict[str, Any], **fields: Any) -> tuple[int, ...]:
    return staging_bytes(micro(ranks=RANKS, **prefill(*staging, **fields)), stage)


def test_entries_add_up_and_are_rounded_one_by_one() -> None:
    first, second = {"base": 3, "per_token": "1/3", "granule": 5}, {"per_token": 2}
    # 3 + 4/3 -> 5 -> 5, 3 + 8/3 -> 6 -> 10; and 8, 16.
    assert staged(0, first, second) == (5 + 8, 10 + 16)


def test_a_table_counts_from_its_first_entry_that_is_long_enough() -> None:
    assert staged(0, {"table": [[3, 10], [4, 20], [99, 30]]}) == (20, 30)
    assert staged(0, {"table": [[5, 10], [7, 20], [8, 30]]}) == (10, 30)


def test_of_a_group_only_the_largest_counts_at_each_chunk() -> None:
    steep, flat = {"per_token": 10, "group": "g"}, {"base": 50, "group": "g"}
    other, apart = {"base": 1, "group": "h"}, {"base": 2}
    assert staged(0, steep, flat) == (50, 80)
    assert staged(0, steep, flat, other, apart) == (50 + 1 + 2, 80 + 1 + 2)


def test_an_entry_of_a_stage_counts_there_and_in_its_groups_only() -> None:
    here, there = {"base": 50, "group": "g", "stage": 0}, {"base": 70, "group": "g", "stage": 1}
    assert staged(0, here, there, {"base": 9}) == (59, 59)
    assert staged(1, here, there, {"base": 9}) == (79, 79)
    assert staged(1, here) == ()


def test_staging_lives_in_prefill_alone() -> None:
    problem = micro(ranks=RANKS, **prefill({"per_token": 2, "stage": 1}))
    rows = rows_of(problem)
    assert {key for key, row in rows.items() if row.staging} == {(1, "prefill")}
    assert rows[1, "prefill"].staging == (8, 16)


# --- consumers, options, experts and pools by rank, stage and phase ------------------------------


@pytest.mark.parametrize(
    ("figure", "rooms"),
    [
        (30, [70, 70]),
        ({"0": 30, "1": 20}, [70, 80]),
        ({"1": 20}, [100, 80]),
        ({"b": 7}, [100, 93]),
        ({"0": 30, "1": 20, "b": 7}, [70, 93]),  # a rank's own name wins over its stage
        ({"a": 0, "0": 30}, [100, 100]),
    ],
)
def test_consumers_by_stage_and_by_rank(figure: Any, rooms: list[int]) -> None:
    problem = micro(ranks=RANKS, consumers=[{"name": "w", "bytes": figure}])
    rows = rows_of(problem)
    assert [rows[rank, "decode"].limit_bytes for rank in (0, 1)] == rooms
    assert [rows[rank, "decode"].quota for rank in (0, 1)] == [100, 100]


def test_options_by_stage_and_phase() -> None:
    options = [
        {"name": "x", "bytes": {"0": 5, "b": 6}},
        {"name": "y", "bytes": 9, "phases": ["load", "encode"]},
    ]
    rows = rows_of(micro(ranks=RANKS, choices=[{"name": "w", "options": options}]))
    assert rows[0, "load"].options == ((5, 9),)
    assert rows[0, "decode"].options == ((5, 0),)
    assert rows[1, "encode"].options == ((6, 9),)


def test_what_lives_in_which_phase() -> None:
    consumers = [
        {"name": "always", "bytes": 1},
        {"name": "late", "bytes": 10, "phases": ["decode", "encode"]},
    ]
    experts = {"slot_bytes": 2, "layers": {"0": 3, "1": 4}, "max_slots": 1}
    rows = rows_of(micro(ranks=RANKS, consumers=consumers, experts=experts))
    assert {phase: rows[0, phase].limit_bytes for _, phase in rows} == {
        "load": 99,
        "prefill": 99,
        "decode": 89,
        "encode": 89,
    }
    assert {phase for (_, phase), row in rows.items() if not row.pools} == {"load"}
    assert [rows[1, phase].layers for phase in ("load", "prefill", "encode")] == [0, 4, 4]


def test_lent_slots_count_in_prefill_alone() -> None:
    lending = {"slot_bytes": 2, "max_slots": 1, "lend": {"keep": 0}}
    rows = rows_of(micro(experts=lending))
    assert {phase for (_, phase), row in rows.items() if row.lent} == {"prefill"}
    rows = rows_of(micro(experts={"slot_bytes": 2, "max_slots": 1}))
    assert not any(row.lent for row in rows.values())


def test_a_buffer_without_bytes_on_a_stage_takes_nothing_there() -> None:
    buffers = [{"bytes": {"0": 6, "1": 0}, "granule": 5}, {"bytes": 2}]
    rows = rows_of(micro(ranks=RANKS, **pool(buffers=buffers)))
    assert rows[0, "decode"].pools == (((6, 5), (2, 1)),)
    assert rows[1, "decode"].pools == (((2, 1),),)


# --- one row for all that is alike --------------------------------------------------------------


def test_rows_that_differ_in_their_room_alone_merge_to_the_tightest() -> None:
    ranks = [{"name": f"r{index}", "quota": quota} for index, quota in enumerate((120, 90, 100))]
    merged = merge_budgets(build_budgets(micro(ranks=ranks), {}, {}))
    assert sorted((row.rank, row.limit_bytes, bool(row.pools)) for row in merged) == [
        (1, 90, False),
        (1, 90, True),
    ]


def test_rows_with_unlike_left_sides_stay_apart() -> None:
    problem = micro(ranks=RANKS, **pool(bytes={"0": 10, "1": 11}), **prefill({"base": 4}))
    merged = merge_budgets(build_budgets(problem, {}, {}))
    sides = {(row.pools, row.staging) for row in merged}
    assert len(merged) == len(sides) == 5  # load of both; prefill and decode of each stage


def test_the_tightest_of_many_ranks_rules_the_plan() -> None:
    ranks = [{"name": f"r{index}", "quota": 100 + 7 * (index % 5)} for index in range(9)]
    heavy = {"name": "heavy", "bytes": {"r3": 40}}
    assert agreed(micro(ranks=ranks)).blocks == {"p": 10}
    assert agreed(micro(ranks=ranks, consumers=[heavy])).blocks == {"p": 8}


def test_blocks_may_differ_between_the_ranks_of_a_stage() -> None:
    """10 bytes a block on the stage, 25 on one rank of it: the dearer rank bounds the count."""
    ranks = [{"name": name, "quota": 100} for name in ("a", "b", "c")]
    problem = micro(ranks=ranks, **pool(buffers=[{"bytes": {0: 10, "b": 25}}]))
    answer = agreed(problem)
    assert answer.blocks == {"p": 4}
    assert [rank.used for rank in answer.ranks] == [40, 100, 40]
