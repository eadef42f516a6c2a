"""SGLang's hooks: the two methods of KVCacheConfigurator that split its bytes, wrapped.

config_from_budget(budget_bytes, *, cap_tokens=None) -> MemoryPoolConfig
_handle_max_mamba_cache(total_rest_memory) -> GiB that the tokens keep
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from kvplan.models.errors import InvalidProblem
from kvplan.solver.managers.environment import is_strict
from kvplan.solver.managers.guard import Guard
from kvplan.solver.managers.sglang.splitting import LOG, Splitting

CLASS = "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator"
BUDGET, STATES = "config_from_budget", "_handle_max_mamba_cache"
KNOWN = ("0.5.23",)
_PLUGGED = "kvplan"


def sglang_version() -> str:
    """Version of the SGLang that runs here."""
    return str(sys.modules["sglang"].__version__)


def plug_in() -> None:
    """Register both hooks; a version that kvplan does not know is left alone.

    Raises
    ------
    StartRefused : KVPLAN_STRICT, and the version is unknown.
    """
    version = sglang_version()
    guard = Guard(f"SGLang {version}", LOG, strict=is_strict(os.environ))
    guard.attempt(lambda: _register(version))


def _register(version: str) -> None:
    if version not in KNOWN:
        raise InvalidProblem.at("SGLang", " or ".join(KNOWN), version)
    registry = import_module("sglang.srt.plugins.hook_registry")
    for method, hook in ((BUDGET, around_budget), (STATES, around_states)):
        target = f"{CLASS}.{method}"
        hooks = registry.HookRegistry._hooks.get(target, ())
        if not any(known[1] is hook for known in hooks):
            registry.HookRegistry.register(target, hook, registry.HookType.AROUND)


def around_budget(
    own: Callable[..., Any], configurator: Any, budget_bytes: int, **more: Any
) -> Any:
    """config_from_budget with kvplan beside it: SGLang's own answer first, then a better split."""
    config = own(configurator, budget_bytes, **more)
    splitting = Splitting(sglang_version())
    if splitting.is_off:
        return config
    limited = more.get("cap_tokens") is not None
    planned = splitting.windows(configurator, int(budget_bytes), config, limited=limited)
    return config if planned is None else planned


def around_states(own: Callable[..., Any], configurator: Any, total_rest_memory: float) -> Any:
    """_handle_max_mamba_cache with kvplan beside it: slots are set before SGLang counts them."""
    splitting = Splitting(sglang_version())
    if not splitting.is_off:
        slots = splitting.states(configurator, total_rest_memory)
        if slots is not None:
            context = import_module("sglang.srt.runtime_context")
            total = slots * int(configurator.attn_dp_size)
            context.get_context().override("mamba_pool.kvplan", max_mamba_cache_size=total)
    return own(configurator, total_rest_memory)
