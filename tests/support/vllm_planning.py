"""A vLLM without vLLM: layers, a configuration, and planning that sizes by kvplan's rules."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

from kvplan.solver.managers.vllm.start import start_of
from support.vllm_objects import config_object, spec_object

VERSION = "0.32.0"
FULL = {"kind": "full", "block_size": 16, "num_kv_heads": 2, "head_size": 32, "dtype": "float32"}
SWA = {**FULL, "kind": "window", "window": 256}
LENGTH = 4096
AVAILABLE = 1 << 26
LEAST_BLOCKS = 500  # the fake engine's limit; the longest request needs 571


@dataclass
class Group:
    """KVCacheGroupSpec."""

    layer_names: list[str]
    kv_cache_spec: Any


def specs(windows: int = 25, full: int = 4) -> dict[str, Any]:
    kinds = [*[SWA] * windows, *[FULL] * full]
    shared = {id(SWA): spec_object(SWA), id(FULL): spec_object(FULL)}
    return {f"model.layers.{index}.attn": shared[id(kind)] for index, kind in enumerate(kinds)}


def config(**changes: Any) -> Any:
    return config_object({"max_model_len": LENGTH, "max_num_batched_tokens": 512, **changes})


class Engine(ModuleType):
    """vllm.v1.core.kv_cache_utils: vLLM's own grouping and sizing, by kvplan's rules."""

    def __init__(self) -> None:
        super().__init__("planning")
        self.extra_blocks = self.extra_bytes = 0

    def get_kv_cache_groups(self, config: Any, specs: dict[str, Any]) -> list[Group]:
        names = list(specs)
        layout = start_of(config, [specs], [AVAILABLE], VERSION).layout()
        return [
            Group([names[i] for i in group.layers], specs[names[group.layers[0]]])
            for group in layout.groups
        ]

    def get_kv_cache_configs(self, config: Any, workers: list[Any], memory: list[int]) -> list[Any]:
        groups = self.get_kv_cache_groups(config, workers[0])
        page = groups[0].kv_cache_spec.page_size_bytes
        block_bytes = page * max(len(group.layer_names) for group in groups)
        blocks = min(memory) // block_bytes
        if blocks < LEAST_BLOCKS:
            raise ValueError("the estimated maximum model length is 16")
        size = block_bytes * (blocks + self.extra_blocks)
        return [
            SimpleNamespace(
                num_blocks=blocks + self.extra_blocks,
                kv_cache_groups=groups,
                kv_cache_tensors=[SimpleNamespace(size=size + self.extra_bytes, layers=[])],
            )
            for _ in workers
        ]
