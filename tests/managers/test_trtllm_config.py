"""KVCacheManagerV2 from its own configuration objects: recorded cases, no TensorRT-LLM."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.trtllm.manager import manager_problem
from kvplan.models.engines.trtllm.ratio import slot_counts
from kvplan.solver import plan
from kvplan.solver.managers.trtllm import (
    cycle_weights,
    manager_config,
    manager_of,
    question,
    verify,
)
from kvplan.solver.managers.workload import Workload
from support.managers import COUNTS, manager
from support.trtllm import CONFIGS


@dataclass
class Tier:
    """GpuCacheTierConfig."""

    quota: int


@dataclass
class Config:
    """KVCacheManagerConfig."""

    tokens_per_block: int
    cache_tiers: list[Tier]
    layers: list[Any]
    max_util_for_resume: float
    constraints: list[Any]
    swa_scratch_reuse: Any = None
    initial_pool_ratio: list[float] | None = None
    typical_step: Any = field(default=None)


PLENTY = 1 << 50


def config(name: str, quota: int = 0) -> Config:
    """A recorded configuration in the engine's own objects; another quota where one is given."""
    data = CONFIGS[name]
    layers = []
    for layer in data["layers"]:
        kind = "SsmLayerConfig" if "state" in layer else "AttentionLayerConfig"
        made = type(kind, (), {})
        for _ in range(layer.get("count", 1)):
            one = made()
            vars(one).update(
                buffers=[
                    SimpleNamespace(size=size, tokens_per_block_override=None)
                    for size in layer["buffers"]
                ],
                sliding_window_size=layer.get("window"),
                num_sink_tokens=layer.get("sink"),
            )
            layers.append(one)
    constraints = [
        SimpleNamespace(
            kv_caches=[
                SimpleNamespace(capacity=request[0], history_length=request[1])
                for request in batch["requests"]
                for _ in range(request[2] if len(request) > 2 else 1)
            ],
            system_prompt_length=batch.get("shared_prefix", 0),
        )
        for batch in data["batches"]
    ]
    rewind = data.get("max_rewind")
    return Config(
        data["tokens_per_block"],
        [Tier(quota or data["quota"])],
        layers,
        data.get("resume_utilization", 0.97),
        constraints,
        None if rewind is None else SimpleNamespace(max_rewind_len=rewind),
    )


READ = [
    name
    for name in COUNTS
    if not CONFIGS[name].get("state_headroom")  # an older rule, which no configuration states
    and all(layer.get("max_slots") is None for layer in CONFIGS[name]["layers"])
]


@pytest.mark.parametrize("name", READ)
def test_the_configuration_is_read_as_recorded(name: str) -> None:
    read, known = manager_of(config(name)), manager(name)
    assert [group.slot_sizes for group in read.groups] == [g.slot_sizes for g in known.groups]
    assert [cycle.layer_share for cycle in read.cycles] == [c.layer_share for c in known.cycles]
    known_problem = manager_problem(manager(name), PLENTY, fill="all")
    assert plan(question(config(name, PLENTY))).floors == plan(known_problem).floors


MIX = Workload(mix=[{"capacity": 700, "share": 2}, {"capacity": 5000, "share": 1}])


@pytest.mark.parametrize("name", READ)
def test_the_engines_split_of_the_planned_ratio_never_falls_below_the_plan(name: str) -> None:
    """The split is the restated one (models/engines/trtllm/ratio.py)."""
    asked = config(name, max(CONFIGS[name]["quota"], 3 << 30))  # some are below their floors
    answer = plan(question(asked, MIX))
    made = manager_config(answer, asked)
    assert made.constraints == asked.constraints
    assert asked.initial_pool_ratio is None
    assert sum(made.initial_pool_ratio) == pytest.approx(1, abs=1e-6)
    ratio = tuple(cycle_weights(answer, asked))
    built = replace(manager_of(asked), cycle_ratio=ratio)
    counts = slot_counts(built, int(made.cache_tiers[0].quota))
    descs = [SimpleNamespace(num_slots=count) for count in counts]
    assert verify(descs, answer) == ()


def test_verify_names_the_group_that_has_fewer_slots() -> None:
    answer = plan(question(config(READ[0])))
    (count,) = answer.blocks.values()
    assert verify([SimpleNamespace(num_slots=count + 1)], answer) == ()
    assert verify([SimpleNamespace(num_slots=count - 1)], answer) == (
        f"pool group 0 (slots of 524288 B): expected at least {count} slots, got {count - 1}",
    )
    assert verify([], answer) == ("expected 1 pool groups, got 0",)


def test_a_buffer_of_smaller_blocks_counts_as_often_as_they_fit() -> None:
    asked = config(READ[0])
    block = asked.tokens_per_block
    before = manager_of(asked).groups[0].slot_sizes
    for layer in asked.layers:
        for buffer in layer.buffers:
            buffer.tokens_per_block_override, buffer.size = block // 2, buffer.size // 2
    assert manager_of(asked).groups[0].slot_sizes == before


def test_an_unknown_class_of_layers_is_refused_by_name() -> None:
    asked = config(READ[0])
    asked.layers[1] = type("LinearLayerConfig", (), {})()
    with pytest.raises(InvalidProblem, match=r"layers\[1\]: .*got LinearLayerConfig"):
        question(asked)


def test_the_quota_stays_where_the_granule_would_change() -> None:
    asked = config(READ[0])
    asked.cache_tiers[0].quota = 1 << 31  # 4 MiB from here on
    answer = plan(question(asked, MIX)).resize((1 << 31) - (1 << 22))
    assert manager_config(answer, asked).cache_tiers[0].quota == 1 << 31
    assert Fraction(sum(cycle_weights(answer, asked))) == 1
