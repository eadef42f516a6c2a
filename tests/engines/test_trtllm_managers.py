"""TensorRT-LLM's KVCacheManagerV2, from layers: slot sizes, groups, floors and counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.trtllm import FLAGS, build, figures
from kvplan.models.engines.trtllm.cycles import LayerBuffers, life_cycles, pool_groups
from kvplan.models.engines.trtllm.manager import (
    Ask,
    Bounds,
    Constraint,
    Manager,
    granule_bytes,
    manager_problem,
)
from kvplan.models.engines.trtllm.ratio import planned_quota, slot_counts
from kvplan.models.engines.trtllm.slots import batch_slots, group_floor, structural_floor
from kvplan.solver import plan
from support.managers import COUNTS, manager
from support.shapes import architecture
from support.trtllm import CONFIGS

SIZED = [name for name, case in COUNTS.items() if "counts" in case]
LIMITED = [name for name in COUNTS if name not in SIZED]
# Scratch reuse beside a shared prefix: the engine counts blocks of the prefix as scratch, too, and
# takes them off a request's own blocks; in a problem scratch begins behind the prefix.
SCRATCH_IN_PREFIX = {"random 34": [422, 115, 522]}


@pytest.mark.parametrize("name", COUNTS)
def test_slot_sizes_and_groups_are_the_engines(name: str) -> None:
    built, case = manager(name), COUNTS[name]
    assert [list(group.slot_sizes) for group in built.groups] == case["slot_sizes"]
    assert [cycle.layer_share for cycle in built.cycles] == [*map(Fraction, case["layer_shares"])]
    assert granule_bytes(CONFIGS[name]["quota"]) == case["granule"]


@pytest.mark.parametrize("name", COUNTS)
def test_slots_of_batches_are_the_engines(name: str) -> None:
    built = manager(name)
    found = [
        [batch_slots(built, one, batch) for one in built.cycles] for batch in built.constraints
    ]
    assert found == COUNTS[name]["batch_slots"]
    assert [group_floor(built, group) for group in built.groups] == CONFIGS[name]["min_slots"]


@pytest.mark.parametrize("name", SIZED)
def test_floors_of_the_problem_are_the_engines(name: str) -> None:
    answer = plan(manager_problem(manager(name), "1PiB"))
    expected = SCRATCH_IN_PREFIX.get(name, CONFIGS[name]["min_slots"])
    assert [*answer.floors.values()] == expected


@pytest.mark.parametrize("name", SIZED)
def test_counts_are_the_engines(name: str) -> None:
    built, case, quota = manager(name), COUNTS[name], CONFIGS[name]["quota"]
    counts = slot_counts(built, quota)
    assert (counts, planned_quota(built, quota)) == (case["counts"], case["planned"])
    if name in SCRATCH_IN_PREFIX:
        return
    sizes = [group.slot_sizes for group in built.groups]
    bounds = Bounds(dict(zip(sizes, counts, strict=True)), case["granule"])
    answer = plan(manager_problem(built, case["planned"], bounds, fill="all"))
    assert [*answer.blocks.values()] == counts


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_below_the_floor_is_refused(name: str) -> None:
    with pytest.raises(InvalidProblem, match="at least the floor 3"):
        slot_counts(manager(name), CONFIGS[name]["quota"])


def test_equal_buffers_are_one_and_equal_slots_one_group() -> None:
    window = LayerBuffers((8192, 8192), window=128, count=2)
    full = LayerBuffers((8192, 8192), count=2)
    (group,) = pool_groups(life_cycles([window, full], 32))
    assert group.slot_sizes == (32768,)
    assert [cycle.window for cycle in group.cycles] == [128, None]
    both = life_cycles([LayerBuffers((4096, 4096)), LayerBuffers((8192,))], 32)
    assert [cycle.slot_sizes for cycle in both] == [(8192, 8192)]


def test_least_slots_of_a_group_are_those_of_its_life_cycles_together() -> None:
    """Windows of 65 and 128 tokens, blocks of 32: 3 and 5 slots; without a window the larger."""
    layers = [LayerBuffers((512,), window=window) for window in (65, 128, None)]
    built = Manager(tuple(layers), 32, ())
    (group,) = built.groups
    assert [structural_floor(built, cycle) for cycle in built.cycles] == [3, 5, 5]
    assert group_floor(built, group) == 13
    asked = Manager(tuple(layers), 32, (Constraint((Ask(1, 0),)),))
    assert [*plan(manager_problem(asked, "1GiB")).floors.values()] == [13]


def test_sinks_in_one_block_are_one_life_cycle() -> None:
    layers = [LayerBuffers((512,), window=64, sink=sink) for sink in (1, 32, 33)]
    assert [len(cycle.layers) for cycle in life_cycles(layers, 32)] == [2, 1]


@pytest.mark.parametrize(
    ("quota", "mib"),
    [(1, 2), (2**31 - 1, 2), (2**31, 4), (2**32, 8), (2**33, 16), (2**34, 32), (2**40, 32)],
)
def test_the_granule_follows_the_quota(quota: int, mib: int) -> None:
    assert granule_bytes(quota) == mib * 2**20


def flags(**given: Any) -> Settings:
    """TensorRT-LLM's flags."""
    return Settings(FLAGS, given)


@pytest.mark.parametrize(
    ("model", "given", "sizes"),
    [
        # keys and values of 32 layers, 8 heads of 128, blocks of 32 tokens: 2 x 64 KiB a layer
        ("Meta-Llama-3.1-8B", {}, [[32 * 2 * 65536]]),
        ("Meta-Llama-3.1-8B", {"kv_cache_dtype": "fp8"}, [[32 * 2 * 32768]]),
        ("Meta-Llama-3.1-8B", {"kv_cache_dtype": "nvfp4"}, [[32 * 2 * 16384, 32 * 2 * 2048]]),
        # windows and full layers are alike: two life cycles, one group
        ("gpt-oss-120b", {}, [[18 * 2 * 32768]]),
        # a latent of 576 and an indexer key of 132 bytes a token
        ("DeepSeek-V3.2", {}, [[61 * 32 * 1152, 61 * 32 * 132]]),
        (
            "Qwen3-Next-80B-A3B-Thinking",
            {"tokens_per_block": 64},
            [[36 * 2**20, 36 * 49152], [24 * 65536]],
        ),
    ],
)
def test_slot_sizes_of_models(model: str, given: dict[str, Any], sizes: list[list[int]]) -> None:
    settings = flags(available=2**36, max_seq_len=65536, mamba_ssm_cache_dtype="bfloat16", **given)
    problem = build(architecture(model), settings)
    found = [[buffer.bytes for buffer in pool.layout] for pool in problem.pools]
    assert found == sizes


def test_a_fixed_quota_is_exceeded_where_the_floors_need_more() -> None:
    """Example of NVIDIA/TensorRT-LLM#18014: floors grow the allocation past the quota."""
    settings = flags(available=2**30, max_seq_len=65536)
    llama = architecture("Meta-Llama-3.1-8B")
    problem = build(llama, settings)
    printed = figures(llama, settings, problem, plan(problem))
    assert printed["exceeds quota"] == "yes"
    assert printed["pool group 0 slots"] == printed["pool group 0 min slots"]


def test_fit_to_quota_shortens_the_longest_request() -> None:
    given = {"available": 2**30 + 12345, "max_seq_len": 65536, "max_num_tokens": 2048}
    settings = flags(**given, constraint_policy="FIT_TO_QUOTA")
    llama = architecture("Meta-Llama-3.1-8B")
    answer = plan(build(llama, settings))
    (rank,) = answer.ranks
    assert rank.used <= rank.quota == 2**30
    request = answer.requests[0]
    assert request.reduced
    # 256 slots of 4 MiB, of which 95 % may be in use: 243 blocks of 32 tokens
    assert request.capacity == 243 * 32
