"""vLLM 0.33: the builder that a platform names (Platform.get_kv_cache_config_builder_cls).

vLLM groups the layers of all pipeline stages before it measures memory, so the stages are derived
from the layers' names, and the bytes are nominal: what a group's width is worth hardly depends on
them, and a width is taken only where the longest request needs no more bytes than with vLLM's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kvplan.models.errors import InvalidProblem
from kvplan.solver.managers.vllm.groups import Groups, grouped
from kvplan.solver.managers.vllm.seams import MARK
from kvplan.solver.managers.vllm.sizing import Sizing, vllm_version

HOOK = "get_kv_cache_config_builder_cls"
NOMINAL_BYTES = 2**44
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")

_BUILDERS: dict[str, str] = {}


def install() -> None:
    """Let the platform name a builder that deals groups anew; once."""
    platform = type(import_module("vllm.platforms").current_platform)
    own = getattr(platform, HOOK)
    if hasattr(own, MARK):
        return

    def named(_: Any, vllm_config: Any) -> str:
        return builder_path(str(own(vllm_config)))

    setattr(named, MARK, own)
    setattr(platform, HOOK, classmethod(named))


def builder_path(own_path: str) -> str:
    """Path of a class below the platform's own builder, made on first use."""
    if own_path not in _BUILDERS:
        module, _, name = own_path.rpartition(".")
        own = getattr(import_module(module), name)
        planned = f"Planned{len(_BUILDERS)}{name}"
        globals()[planned] = type(planned, (own,), {"get_kv_cache_groups": _method(own)})
        _BUILDERS[own_path] = f"{__name__}.{planned}"
    return _BUILDERS[own_path]


def _method(own: type) -> Callable[[Any, Any, dict[str, Any]], Groups]:
    def get_kv_cache_groups(self: Any, vllm_config: Any, kv_cache_spec: dict[str, Any]) -> Groups:
        """Deal the layers for the workload; vLLM's own groups outside apply."""

        def groups(config: Any, specs: dict[str, Any]) -> Groups:
            found: Groups = own.get_kv_cache_groups(self, config, specs)  # type: ignore[attr-defined]
            return found

        sizing = Sizing(vllm_version())
        if sizing.settings.mode != "apply" or _is_a_part(vllm_config, kv_cache_spec):
            return groups(vllm_config, kv_cache_spec)
        stages = sizing.guard.attempt(lambda: stages_of_layers(vllm_config, kv_cache_spec))
        start = stages and sizing.read(vllm_config, stages, [NOMINAL_BYTES] * len(stages))
        deal = sizing.deal(start) if start else None
        dealt = None
        if deal is not None:
            planned = grouped(deal, groups)
            dealt = sizing.guard.attempt(lambda: planned(vllm_config, dict(kv_cache_spec)))
        return groups(vllm_config, kv_cache_spec) if dealt is None else dealt

    return get_kv_cache_groups


def _is_a_part(config: Any, specs: Mapping[str, Any]) -> bool:
    """Whether these are one worker's layers under pipeline parallelism: a profile, not the plan."""
    stages = int(config.parallel_config.pipeline_parallel_size)
    return stages > 1 and len({_stage(config, name) for name in specs}) < stages


def stages_of_layers(config: Any, specs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Layers of each pipeline stage, by the number in their names and vLLM's own partition.

    Raises
    ------
    InvalidProblem : a layer without a number, where there are several stages.
    """
    stages: dict[int, dict[str, Any]] = {}
    for name, spec in specs.items():
        stages.setdefault(_stage(config, name), {})[name] = spec
    return [stages[stage] for stage in sorted(stages)]


def _stage(config: Any, name: str) -> int:
    stages = int(config.parallel_config.pipeline_parallel_size)
    if stages == 1:
        return 0
    match = _LAYER.search(name)
    if match is None:
        raise InvalidProblem.at(f"kv_cache_specs.{name}", "a layer's number (layers.N.)", name)
    layers = int(config.model_config.get_total_num_hidden_layers())
    indices = import_module("vllm.distributed.utils").get_pp_indices
    ends = [indices(layers, stage, stages)[1] for stage in range(stages)]
    return next(stage for stage, end in enumerate(ends) if int(match[1]) < end)
