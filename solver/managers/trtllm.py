"""TensorRT-LLM's KVCacheManagerV2 (tensorrt_llm/runtime/kv_cache_manager_v2/_config.py).

Not run: no build of TensorRT-LLM could be installed. The rules are restated from its source, and
tested on recorded configurations.

    problem = question(config, workload)                  # a KVCacheManagerConfig
    answer = plan(problem)
    manager = KVCacheManager(manager_config(answer, config))
    faults = verify(manager.pool_group_descs, answer)     # slots below the plan
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from fractions import Fraction
from typing import Any

from kvplan.models.engines.trtllm.cycles import LayerBuffers
from kvplan.models.engines.trtllm.manager import (
    Ask,
    Constraint,
    Manager,
    granule_bytes,
    group_name,
    manager_problem,
)
from kvplan.models.errors import InvalidProblem
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.solver.managers.mix import mix_of
from kvplan.solver.managers.workload import Workload

LAYERS = {"AttentionLayerConfig": False, "SsmLayerConfig": True}
"""Classes of layers, and whether they keep a state."""


def question(config: Any, workload: Workload | None = None) -> Problem:
    """The problem of a manager on one rank: its constraints must fit, a workload gets the rest.

    Parameters
    ----------
    config : KVCacheManagerConfig; the first cache tier is the device's.

    Raises
    ------
    InvalidProblem : a class of layers that kvplan does not know, by name.
    """
    manager, quota = manager_of(config), int(config.cache_tiers[0].quota)
    problem = manager_problem(manager, quota, fill="all")
    if workload is None:
        return problem
    data = problem.model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate({**data, "fill": {"mix": mix_of(workload)}})


def manager_of(config: Any) -> Manager:
    """Read a KVCacheManagerConfig.

    Raises
    ------
    InvalidProblem : a class of layers that kvplan does not know, by name.
    """
    block = int(config.tokens_per_block)
    scratch = getattr(config, "swa_scratch_reuse", None)
    return Manager(
        layers=tuple(_layer(index, layer, block) for index, layer in enumerate(config.layers)),
        block=block,
        constraints=tuple(map(_constraint, config.constraints)),
        resume=Fraction(str(config.max_util_for_resume)),
        max_rewind=None if scratch is None else int(scratch.max_rewind_len),
        name="TensorRT-LLM",
    )


def _layer(index: int, layer: Any, block: int) -> LayerBuffers:
    """One layer; a buffer of smaller blocks counts as often as they fit in a block."""
    name = type(layer).__name__
    if name not in LAYERS:
        raise InvalidProblem.at(f"layers[{index}]", f"one of {', '.join(LAYERS)}", name)
    times = [block // int(b.tokens_per_block_override or block) for b in layer.buffers]
    return LayerBuffers(
        tuple(int(b.size) * n for b, n in zip(layer.buffers, times, strict=True)),
        window=getattr(layer, "sliding_window_size", None),
        sink=getattr(layer, "num_sink_tokens", None) or 0,
        state=LAYERS[name],
    )


def _constraint(batch: Any) -> Constraint:
    alike = Counter((int(one.capacity), int(one.history_length)) for one in batch.kv_caches)
    asks = tuple(Ask(capacity, history, count) for (capacity, history), count in alike.items())
    return Constraint(asks, int(batch.system_prompt_length))


def cycle_weights(answer: Plan, config: Any) -> list[Fraction]:
    """Share of each life cycle in the plan's bytes, pools rounded to the granule; they sum to 1.

    A group's share is dealt evenly to its life cycles: the engine sums them by group again.
    """
    manager = manager_of(config)
    granule = granule_bytes(int(config.cache_tiers[0].quota))
    taken = {
        group.slot_sizes: sum(
            -(-answer.blocks[group_name(group)] * size // granule) * granule
            for size in group.slot_sizes
        )
        for group in manager.groups
    }
    cycles = {group.slot_sizes: len(group.cycles) for group in manager.groups}
    total = sum(taken.values())
    sizes = [cycle.slot_sizes for cycle in manager.cycles]
    return [Fraction(taken[size], total * cycles[size]) for size in sizes]


def manager_config(answer: Plan, config: Any) -> Any:
    """A KVCacheManagerConfig that arrives at a plan: its quota and ratios; constraints stay.

    The quota becomes what the plan takes, where the page granule stays the same (it follows from
    the configured quota).
    """
    made, tier = copy(config), copy(config.cache_tiers[0])
    used = answer.ranks[0].used
    if granule_bytes(used) == granule_bytes(int(tier.quota)):
        tier.quota = used
    made.cache_tiers = [tier, *config.cache_tiers[1:]]
    made.initial_pool_ratio = [float(weight) for weight in cycle_weights(answer, config)]
    return made


def verify(pool_group_descs: Sequence[Any], answer: Plan) -> tuple[str, ...]:
    """Compare the slots of a manager with a plan: one line for each group that has fewer.

    Parameters
    ----------
    pool_group_descs : of the manager, in its order; each has num_slots.
    """
    slots = [int(group.num_slots) for group in pool_group_descs]
    if len(slots) != len(answer.blocks):
        return (f"expected {len(answer.blocks)} pool groups, got {len(slots)}",)
    return tuple(
        f"pool group {index} (slots of {name} B): expected at least {planned} slots, got {found}"
        for index, ((name, planned), found) in enumerate(
            zip(answer.blocks.items(), slots, strict=True)
        )
        if found < planned
    )
