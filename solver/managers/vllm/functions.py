"""The planning function that every vLLM from 0.19 on calls once a start, wrapped.

0.19 to 0.32: vllm/v1/core/kv_cache_utils.py; 0.33: vllm/v1/core/kv_cache_planning.py. vLLM's core
imports it by name, so both modules are changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from kvplan.solver.managers.vllm.configs import Configs
from kvplan.solver.managers.vllm.groups import groups_replaced
from kvplan.solver.managers.vllm.seams import CORE, FUNCTION, MARK
from kvplan.solver.managers.vllm.sizing import Sizing, vllm_version
from kvplan.solver.managers.vllm.start import Start


def install(home: str, *, deals: bool) -> None:
    """Wrap the function in its module, and in vLLM's core if that is loaded already; once.

    Parameters
    ----------
    deals : whether the function groups the layers itself (0.33 groups them before, by a builder).
    """
    module = import_module(home)
    own = getattr(module, FUNCTION)
    if hasattr(own, MARK):
        return
    wrapped = wrap(own, module if deals else None)
    setattr(module, FUNCTION, wrapped)
    core = sys.modules.get(CORE)
    if core is not None and getattr(core, FUNCTION, None) is own:
        setattr(core, FUNCTION, wrapped)


def wrap(own: Callable[..., Configs], module: ModuleType | None) -> Callable[..., Configs]:
    """get_kv_cache_configs with kvplan beside it.

    Parameters
    ----------
    module : where `own` looks get_kv_cache_groups up; None where it is given the groups.
    """

    def get_kv_cache_configs(
        vllm_config: Any,
        kv_cache_specs: Sequence[Mapping[str, Any]],
        available_memory: Sequence[int],
        *groups: Any,
        **named: Any,
    ) -> Configs:
        def planned() -> Configs:
            return own(vllm_config, kv_cache_specs, available_memory, *groups, **named)

        sizing = Sizing(vllm_version())
        start = sizing.read(vllm_config, kv_cache_specs, available_memory)
        if start is None:
            return planned()
        dealt = None if module is None else _dealt(sizing, start, planned, module)
        return _own(sizing, start, planned) if dealt is None else dealt

    setattr(get_kv_cache_configs, MARK, own)
    return get_kv_cache_configs


def _own(sizing: Sizing, start: Start, planned: Callable[[], Configs]) -> Configs:
    """vLLM's own sizing, compared; its refusal, explained."""
    try:
        configs = planned()
    except ValueError:
        sizing.explain(start)
        raise
    if sizing.agrees(start, configs):
        sizing.suggest(start)
    return configs


def _dealt(
    sizing: Sizing, start: Start, planned: Callable[[], Configs], module: ModuleType
) -> Configs | None:
    """vLLM's own planning with its groups dealt anew; its checks and its tensors stay its own."""
    deal = sizing.deal(start)
    if deal is None:
        return None
    with groups_replaced(module, deal):
        configs = sizing.guard.attempt(planned)
    return configs if configs is not None and sizing.agrees(start, configs) else None
