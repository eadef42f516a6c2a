"""A plan as vLLM's own KVCacheConfig, one a worker, made and checked by vLLM's own planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from kvplan.models.engines.vllm.pool_problem import POOL
from kvplan.models.errors import InvalidProblem
from kvplan.models.plan import Plan
from kvplan.solver.digest import question_of
from kvplan.solver.managers.vllm.groups import by_width, group_sizes, groups_replaced, regroup
from kvplan.solver.managers.vllm.seams import FUNCTION, PLANNING, UTILS, groups_before_memory, own
from kvplan.solver.managers.vllm.start import Start, start_of

Configs = list[Any]


def apply(
    answer: Plan,
    config: Any,
    kv_cache_specs: Sequence[Mapping[str, Any]],
    available_bytes: Sequence[int],
    *,
    version: str,
) -> Configs:
    """A plan as vLLM's KVCacheConfigs; vLLM's planning runs with the layers dealt as planned.

    Parameters
    ----------
    answer : plan of `question` with the same objects, bytes and version.

    Returns
    -------
    KVCacheConfig of every worker, as get_kv_cache_configs returns them.

    Raises
    ------
    InvalidProblem : a plan of another question, or vLLM's groups, blocks or bytes are not the
        plan's.
    LeftAlone : what is left to vLLM, or groups that kvplan does not deal anew.
    """
    start = start_of(config, kv_cache_specs, available_bytes, version)
    width = planned_width(start, answer)
    configs = _made(
        start, width, config, [dict(specs) for specs in kv_cache_specs], available_bytes
    )
    expected = [len(group.layers) for group in start.layout(width).groups]
    sizes = list(group_sizes(configs))
    if sizes != expected:
        raise InvalidProblem.at("kv_cache_groups", f"groups of {expected} layers", str(sizes))
    different = difference(answer, configs)
    if different is not None:
        raise InvalidProblem.at(*different)
    return configs


def planned_width(start: Start, answer: Plan) -> int:
    """Most layers of a group in the layout that a plan is for; 0: vLLM's own groups.

    Raises
    ------
    InvalidProblem : the plan answers no question about this start.
    """
    for width in range(len(start.specs) + 1):
        if question_of(start.problem(width)) == answer.question:
            return width
    raise InvalidProblem.at(
        "plan.question", "a plan of question(...) with these objects and bytes", answer.question
    )


def _made(
    start: Start,
    width: int,
    config: Any,
    specs: list[dict[str, Any]],
    available_bytes: Sequence[int],
) -> Configs:
    """vLLM's own planning, with its groups or those of a width."""
    made: Configs
    if not groups_before_memory(start.serving.version):
        module = import_module(UTILS)
        with groups_replaced(module, by_width(width)):
            made = own(module, FUNCTION)(config, specs, list(available_bytes))
        return made
    module = import_module(PLANNING)
    groups = module.get_global_kv_cache_groups(config, specs)
    dealt = regroup(groups, start.layers.names, width) if width else groups
    made = own(module, FUNCTION)(config, specs, list(available_bytes), dealt)
    return made


def difference(answer: Plan, configs: Configs) -> tuple[str, str, str] | None:
    """First difference of a worker's blocks or bytes: where, what is planned, what vLLM has."""
    planned = answer.blocks[POOL]
    for index, (rank, config) in enumerate(zip(answer.ranks, configs, strict=True)):
        where, blocks = f"kv_cache_configs[{index}]", int(config.num_blocks)
        if blocks != planned:
            return f"{where}.num_blocks", f"{planned} blocks, as planned", f"{blocks}"
        (line,) = [line for line in rank.ledger if line.consumer == POOL]
        found = allocated_bytes(config)
        if found != line.bytes:
            expected = f"{line.bytes} B, as planned for {rank.name}"
            return f"{where}.kv_cache_tensors", expected, f"{found} B"
    return None


def allocated_bytes(config: Any) -> int:
    """Bytes that a worker allocates for a KVCacheConfig.

    0.32 and 0.33 (KVCacheTensor.layers): all tensors lie in one allocation of `size` bytes. Before
    (KVCacheTensor.shared_by): each is an allocation, or, packed, all lie in one of so many blocks
    of `block_stride` bytes.
    """
    tensors = config.kv_cache_tensors
    if all(hasattr(tensor, "layers") for tensor in tensors):
        return max((int(tensor.size) for tensor in tensors), default=0)
    stride = max(int(getattr(tensor, "block_stride", 0)) for tensor in tensors)
    return stride * int(config.num_blocks) or sum(int(tensor.size) for tensor in tensors)
