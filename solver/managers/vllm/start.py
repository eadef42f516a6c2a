"""What vLLM knows when it sizes its KV cache, as a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvplan.models.engines.vllm.block_groups import Layout, Serving, stages_of
from kvplan.models.engines.vllm.launch.versions import version_of
from kvplan.models.engines.vllm.paging.grouping import layout_of
from kvplan.models.engines.vllm.pool_problem import BATCH, REQUEST, Worker, overridden, problem_of
from kvplan.models.engines.vllm.refusals import check_specs
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.problem import Problem
from kvplan.solver.managers.vllm.engine_config import check_modelled, fits_length, serving_of
from kvplan.solver.managers.vllm.specs import Layers, layers_of

BYTES_FLAG = "--kv-cache-memory-bytes"
LABELS = {
    f"batches.{BATCH}.requests.{REQUEST}.capacity": "--max-model-len",
    f"batches.{BATCH}.requests.{REQUEST}.fit": "--max-model-len auto",
}
"""Fields that a remedy changes, by the flags that change them."""


@dataclass(frozen=True)
class Start:
    """A start of vLLM, as far as the pool depends on it.

    Attributes
    ----------
    layers : of all workers.
    workers : ranks, each with its stage and bytes.
    auto_fit, override_blocks : --max-model-len auto, --num-gpu-blocks-override.
    """

    layers: Layers
    serving: Serving
    workers: tuple[Worker, ...]
    auto_fit: bool = False
    override_blocks: int | None = None

    def layout(self, group_layers: int = 0) -> Layout:
        """Groups of layers: vLLM's own, or of at most so many layers each."""
        serving = replace(self.serving, group_layers=group_layers)
        return layout_of(self.layers.specs, serving, stages_of(self.layers.counts))

    def problem(self, group_layers: int = 0) -> Problem:
        """The problem whose plan is what vLLM does with these groups.

        An override that stands for the memory is written as that: so many blocks' bytes.
        """
        layout, workers, blocks = self.layout(group_layers), self.workers, self.override_blocks
        if blocks is not None and self.serving.version.override_replaces_memory:
            workers, blocks = overridden(layout, workers, blocks), None
        return problem_of(
            layout,
            self.serving,
            workers,
            name=f"vLLM {self.serving.version.text}",
            auto_fit=self.auto_fit,
            override_blocks=blocks,
            labels=self._labels(),
        )

    def _labels(self) -> dict[str, str]:
        """Flags by field; more bytes help nobody whose count of blocks is given."""
        names = ["*", *(worker.name for worker in self.workers)]
        open_ranks = names if self.override_blocks is None else []
        return LABELS | {f"ranks.{name}.quota": BYTES_FLAG for name in open_ranks}

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Of all layers."""
        return self.layers.specs


def start_of(
    config: Any,
    kv_cache_specs: Sequence[Mapping[str, Any]],
    available_bytes: Sequence[int],
    version: str,
) -> Start:
    """Read a start from vLLM's own objects.

    Parameters
    ----------
    config : VllmConfig.
    kv_cache_specs : KVCacheSpec by layer, one mapping a worker.
    available_bytes : for the KV cache, of each worker.
    version : of vLLM, such as 0.32.0.

    Raises
    ------
    InvalidProblem : a version, a spec's class or a layout that kvplan does not know, by name.
    LeftAlone : what is left to vLLM.
    """
    flat = [spec for specs in kv_cache_specs for spec in specs.values()]
    check_modelled(config, flat)
    serving = serving_of(config, version_of(version.split("+")[0]), flat)
    layers = layers_of(list(kv_cache_specs), serving.context_shards)
    check_specs(list(layers.specs), serving)
    workers = tuple(
        Worker(f"worker{rank}", stage, {"quota": max(0, int(quota))}, int(quota))
        for rank, (stage, quota) in enumerate(zip(layers.stages, available_bytes, strict=True))
    )
    override = config.cache_config.num_gpu_blocks_override
    return Start(layers, serving, workers, fits_length(config), override)
