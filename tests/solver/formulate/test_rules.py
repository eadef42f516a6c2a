"""Caches, pools and expert slots as integer rules; structural floors."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.kernels.instance import PREFILL, ExpertRule
from kvplan.models import Problem
from kvplan.solver.formulate.formulation import Held, formulate
from support.instance import instance_of, rule, windows
from support.micro import cache, micro, pool


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "full"}, rule("full", 4)),
        ({"kind": "full", "shards": 3, "tokens_per_block": 8}, rule("full", 24)),
        (
            {"kind": "full", "groups": 2, "extra_blocks": 1},
            rule("full", 4, groups=2, extra_blocks=1),
        ),
        ({"kind": "state"}, rule("state", 4, state_blocks=1)),
        ({"kind": "state", "blocks": 5}, rule("state", 4, state_blocks=5)),
        ({"kind": "window", "window": 9}, rule("peak", 4, reach=9)),
        ({"kind": "window", "window": 9, "sink": 5}, rule("peak", 4, reach=9, sink_blocks=2)),
        ({"kind": "window", "window": 9, "in_flight": 7}, rule("peak", 4, reach=9, flight=7)),
        (
            {"kind": "window", "window": 9, "keep": "live", "sink": 8},
            rule("live", 4, reach=9, sink_blocks=2),
        ),
        (
            {
                "kind": "window",
                "window": 9,
                "keep": "live",
                "scratch": {"fraction": 0.25, "max_rewind": 3},
            },
            rule("live", 4, reach=9, scratch=(1, 4), rewind=3),
        ),
        ({"kind": "window", "window": 9, "keep": "in_flight"}, rule("flight", 4, reach=8)),
        ({"kind": "chunked", "chunk": 9}, rule("flight", 4, reach=9)),
        (
            {"kind": "chunked", "chunk": 9, "in_flight": "prefill", "in_flight_per": "batch"},
            rule("flight", 4, reach=9, flight=PREFILL, flight_per_batch=True),
        ),
    ],
)
def test_a_cache_as_a_rule(fields: dict[str, Any], expected: Any) -> None:
    prefill = {"requested": 8}
    assert instance_of(micro(prefill=prefill, **cache(**fields))).caches == (expected,)


# --- structural floors: TensorRT-LLM KVCacheManagerV2, _storage_manager.py ----------------------


def floors(problem: Problem) -> list[int]:
    return [instance.least for instance in instance_of(problem).pools]


@pytest.mark.parametrize(
    ("window", "sink", "floor"),
    [(1, 0, 1), (2, 0, 2), (5, 0, 2), (6, 0, 3), (64, 0, 17), (1, 1, 2), (1, 4, 2), (1, 5, 3)],
)
def test_a_live_window_has_a_floor_of_its_worst_instant(window: int, sink: int, floor: int) -> None:
    assert floors(micro(caches=windows(4, window, sink=sink))) == [floor]


def test_the_structural_floor_sums_over_the_caches_of_a_pool() -> None:
    caches = [
        *windows(4, 6, groups=2),  # 2 x 3
        *windows(4, 13, sink=3),  # 1 + 4 + 1
        {"name": "full", "pool": "p", "kind": "full", "groups": 3},  # 3 x the widest window
        {"name": "state", "pool": "p", "kind": "state", "blocks": 5, "groups": 2},
        {"name": "peak", "pool": "p", "kind": "window", "window": 99, "groups": 4},
    ]
    problem = micro(caches=caches, resume_utilization=0.5)
    widest = 1 + (13 + 2) // 4 + 1
    assert floors(problem) == [2 * 3 + widest + 3 * widest + 2 * 5 + 4]


def test_there_is_no_structural_floor_without_a_live_window() -> None:
    caches = [
        {"name": "full", "pool": "p", "kind": "full"},
        {"name": "state", "pool": "p", "kind": "state"},
        {"name": "peak", "pool": "p", "kind": "window", "window": 99},
    ]
    assert floors(micro(caches=caches)) == [0]


def test_min_blocks_and_held_floors_raise_the_least() -> None:
    problem = micro(caches=windows(4, 6), **pool(min_blocks=4))
    assert floors(problem) == [4]
    held = formulate(problem, Held(granules={}, floors={"p": 7}))
    assert [instance.least for instance in held.instance.pools] == [7]


def test_resume_utilization_spares_pools_without_headroom() -> None:
    pools = [{"name": "p", "bytes": 1}, {"name": "q", "bytes": 1, "resume_headroom": False}]
    instance = instance_of(micro(pools=pools, resume_utilization="0.97"))
    assert [(p.use_num, p.use_den) for p in instance.pools] == [(97, 100), (1, 1)]


# --- experts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"slot_bytes": 7}, (0, None, ((1, 7),), 1, 0, 0, 1)),
        ({"slot_bytes": 7, "max_slots": 9, "granule": 5}, (0, 9, ((1, 7),), 5, 0, 0, 1)),
        ({"slot_bytes": [[8, 20], [120, 10]]}, (0, 128, ((8, 20), (120, 10)), 1, 0, 0, 1)),
        (
            {"slot_bytes": 7, "min_slots": 2, "lend": {"keep": 3, "fraction": 0.9}},
            (2, None, ((1, 7),), 1, 3, 9, 10),
        ),
    ],
)
def test_experts_as_terms(fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert instance_of(micro(experts=fields)).experts == ExpertRule(*expected)
