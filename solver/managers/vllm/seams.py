"""Where vLLM plans its KV cache: modules and functions by version."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from kvplan.models.engines.vllm.launch.versions import Version

UTILS, PLANNING = "vllm.v1.core.kv_cache_utils", "vllm.v1.core.kv_cache_planning"
CORE = "vllm.v1.engine.core"
FUNCTION, GROUPS = "get_kv_cache_configs", "get_kv_cache_groups"
MARK = "__kvplan__"
BUILDER_FROM = (0, 33, 0)


def groups_before_memory(version: Version) -> bool:
    """Whether a builder groups the layers before memory is measured (0.33)."""
    return version.number >= BUILDER_FROM


def own(module: ModuleType, name: str) -> Any:
    """A function of vLLM's without what kvplan wrapped around it."""
    found = getattr(module, name)
    return getattr(found, MARK, found)
