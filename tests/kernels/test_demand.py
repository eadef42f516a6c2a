"""Needs of whole batches: what is shared, what many requests add up to, and the floors."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.kernels.demand import Demand
from kvplan.models import Problem
from support.instance import instance_of, raw_of, windows
from support.micro import cache, micro, one, pool

# TensorRT-LLM KVCacheManagerV2: four full layers, two windows of 128 with a sink of 5, one state.
TRTLLM: dict[str, Any] = {
    "ranks": [{"name": "gpu", "quota": "1GiB"}],
    "tokens_per_block": 32,
    "resume_utilization": "0.97",
    "pools": [
        {"name": "full", "bytes": 524288, "granule": "auto"},
        {"name": "swa", "bytes": 262144, "granule": "auto"},
        {
            "name": "ssm",
            "buffers": [{"bytes": 829440, "granule": "auto"}, {"bytes": 4096, "granule": "auto"}],
            "resume_headroom": False,
        },
    ],
    "caches": [
        {"name": "full", "pool": "full", "kind": "full"},
        {
            "name": "swa",
            "pool": "swa",
            "kind": "window",
            "keep": "live",
            "window": 128,
            "sink": 5,
        },
        {"name": "ssm", "pool": "ssm", "kind": "state"},
    ],
    "batches": [
        {
            "name": "decode",
            "requests": [
                {"capacity": 4096, "history": 4095},
                {"capacity": 8, "history": 0, "count": 2},
                {"capacity": 0},
            ],
        },
        {"name": "prefill", "requests": [{"capacity": 2048, "history": 0}]},
    ],
}


def batch(*requests: dict[str, Any], prefix: int = 0) -> dict[str, Any]:
    return {"batches": [{"name": "b", "shared_prefix": prefix, "requests": [*requests]}]}


def test_raw_needs_of_the_tensorrt_llm_example() -> None:
    problem = Problem.model_validate(TRTLLM)
    assert raw_of(problem, 0) == [130, 7, 4]
    assert raw_of(problem, 1) == [64, 64, 1]


def test_floors_are_the_largest_over_batches_after_one_division() -> None:
    demand = Demand(instance_of(Problem.model_validate(TRTLLM)))
    assert demand.floors(0, (), ()) == [135, 66, 4]


def test_floors_without_batches_are_the_structure() -> None:
    demand = Demand(instance_of(Problem.model_validate({**TRTLLM, "batches": []})))
    assert demand.floors(0, (), ()) == [6, 6, 1]


def test_floors_obey_min_blocks_and_multiples() -> None:
    given_blocks = one(33)  # 9 blocks of 4 tokens
    assert Demand(instance_of(micro(**given_blocks))).floors(0, (), ()) == [9]
    tall = micro(**given_blocks, **pool(min_blocks=10))
    assert Demand(instance_of(tall)).floors(0, (), ()) == [10]
    even = micro(**given_blocks, **pool(multiple_of=4))
    assert Demand(instance_of(even)).floors(0, (), ()) == [12]
    shared = micro(**given_blocks, **pool(multiple_of=4), resume_utilization="3/4")
    assert Demand(instance_of(shared)).floors(0, (), ()) == [12]  # ceil(9 / 0.75), then no more


def test_floors_of_a_fitted_batch_move_with_its_variables() -> None:
    problem = micro(
        batches=[
            {"name": "a", "requests": [{"capacity": 40, "fit": "capacity", "count": 2}]},
            {"name": "b", "requests": [{"capacity": 12, "fit": "count"}]},
            {"name": "c", "requests": [{"capacity": 17}]},
        ]
    )
    demand = Demand(instance_of(problem))
    assert demand.floors(0, (4, 12), (2, 1)) == [5]
    assert demand.floors(0, (40, 12), (2, 1)) == [20]
    assert demand.floors(0, (4, 12), (2, 7)) == [21]


# --- what a batch shares ------------------------------------------------------------------------


def test_two_requests_share_a_prefix_in_full() -> None:
    """Two (48, 0) behind 40 tokens on blocks of 8: five shared and one each (TensorRT-LLM V2)."""
    problem = micro(
        tokens_per_block=8, **batch({"capacity": 48, "history": 0, "count": 2}, prefix=40)
    )
    assert raw_of(problem) == [5 + 2]


def test_a_prefix_shorter_than_a_block_is_not_shared() -> None:
    problem = micro(tokens_per_block=64, **batch({"capacity": 48, "count": 3}, prefix=40))
    assert raw_of(problem) == [3]


def test_a_prefix_block_stays_while_one_request_sees_it() -> None:
    far, near = {"capacity": 41, "history": 40}, {"capacity": 30, "history": 29}
    both = micro(caches=windows(4, 4), **batch(far, near, prefix=24))
    # Blocks 0..5 are shared; far has 0..8 stale, near 0..5: all six are dead.
    assert raw_of(both) == [0 + (5 - 3) + 2]
    early = {"capacity": 30, "history": 12}
    seen = micro(caches=windows(4, 4), **batch(far, early, prefix=24))
    # early sees blocks 2..5 (only 0 and 1 are stale for all), and holds 6 and 7 itself.
    assert raw_of(seen) == [4 + (5 - 3) + 2]


def test_placeholders_and_absent_requests_take_no_part_in_a_prefix() -> None:
    far = {"capacity": 41, "history": 40}
    alone = raw_of(micro(caches=windows(4, 4), **batch(far, prefix=24)))
    idle = [{"capacity": 0, "count": 3}, {"capacity": 30, "history": 0, "count": 0}]
    beside = raw_of(micro(caches=windows(4, 4), **batch(far, *idle, prefix=24)))
    assert alone == beside == [2]


def test_a_batch_of_placeholders_holds_no_prefix() -> None:
    assert raw_of(micro(**batch({"capacity": 0, "count": 3}, prefix=24))) == [0]


@pytest.mark.parametrize(("first", "shared"), [(25, 4), (33, 2), (40, 0), (60, 0)])
def test_a_fitted_capacity_decides_what_of_the_prefix_is_dead(first: int, shared: int) -> None:
    problem = micro(
        caches=windows(4, 16),
        **batch({"name": "q", "capacity": 64, "history": 63, "fit": "capacity"}, prefix=24),
    )
    demand = Demand(instance_of(problem))
    own = demand.own(0, first, 0)[0]
    assert demand.raw(0, 0, (first,), (1,)) == [shared + own]
    stale = max(0, (first - 16) // 4)
    assert shared == 6 - min(6, stale)
    assert own == -(-first // 4) - 6 - max(0, stale - 6)


def test_groups_multiply_the_prefix_too() -> None:
    two = {"capacity": 48, "history": 0, "count": 2}
    problem = micro(**cache(kind="full", groups=3, extra_blocks=1), **batch(two, prefix=40))
    assert raw_of(problem) == [3 * (10 + 2 * (2 + 1))]


def test_a_fitted_capacity_of_no_request_takes_no_part() -> None:
    absent = {"name": "q", "capacity": 64, "fit": "capacity", "count": 0}
    flight = cache(kind="chunked", chunk=8, in_flight=10, in_flight_per="batch")
    for sections in (flight, {"caches": windows(4, 4)}, cache(kind="full")):
        prefix = 0 if sections is flight else 24
        alone = micro(**sections, **batch(absent, prefix=prefix))
        assert Demand(instance_of(alone)).raw(0, 0, (64,), (0,)) == [0]
    beside = micro(
        caches=windows(4, 4), **batch(absent, {"capacity": 41, "history": 40}, prefix=24)
    )
    assert Demand(instance_of(beside)).raw(0, 0, (30,), (0,)) == [2]


@pytest.mark.parametrize("kind", [{"kind": "chunked", "chunk": 8}, {"kind": "window", "window": 9}])
def test_a_flight_of_the_batch_is_held_once(kind: dict[str, Any]) -> None:
    flight = {**kind, "in_flight": 10, "in_flight_per": "batch"}
    if kind["kind"] == "window":
        flight["keep"] = "in_flight"
    requests = [{"capacity": 40}, {"capacity": 6, "count": 2}, {"capacity": 0}]
    problem = micro(**cache(groups=2, extra_blocks=1, **flight), **batch(*requests))
    # 8 tokens before the flight, or all 6: (2 + 1) + 2 x (2 + 1); and ceil(10 / 4) once.
    assert raw_of(problem) == [2 * (3 + 6 + 3)]
    idle = micro(**cache(**flight), **batch({"capacity": 0}, {"capacity": 5, "count": 0}))
    assert raw_of(idle) == [0]


def test_a_flight_of_the_prefill_follows_the_chunk() -> None:
    problem = micro(
        **cache(kind="chunked", chunk=8, in_flight="prefill"),
        prefill={"requested": 12, "min": 4, "step": 4, "batches_in_flight": 2},
        **one(100),
    )
    assert [raw_of(problem, chunk=index) for index in range(3)] == [[4], [6], [8]]
