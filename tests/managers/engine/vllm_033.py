"""vLLM 0.33's planning from its Python files: builder seam, grouping and sizing; prints JSON.

Arguments: the mode, and the layers of each pipeline stage.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
import vllm
from vllm.v1.core import kv_cache_planning
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from vllm.v1.kv_cache_layout import KVCacheLayout

from kvplan.solver.managers import vllm as manager

LENGTH, STEP, AVAILABLE = 4096, 512, 1 << 27
FULL_EVERY, LAYERS = 7, 29


def spec(index: int) -> Any:
    common: dict[str, Any] = {
        "block_size": 16,
        "num_kv_heads": 2,
        "head_size": 32,
        "dtype": torch.float32,
    }
    if index % FULL_EVERY == FULL_EVERY - 1:
        return FullAttentionSpec(**common)
    return SlidingWindowSpec(sliding_window=256, **common)


def config(stages: int) -> Any:
    return SimpleNamespace(
        max_in_flight_tokens=STEP * max(1, stages),
        num_prefill_lookahead_tokens=0,
        speculative_config=None,
        attention_config=SimpleNamespace(hisparse_config=None),
        device_config=SimpleNamespace(device_type="cpu"),
        model_config=SimpleNamespace(
            max_model_len=LENGTH,
            original_max_model_len=LENGTH,
            supports_kv_cache_grouping=False,
            get_total_num_hidden_layers=lambda: LAYERS,
        ),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=STEP, disable_hybrid_kv_cache_manager=False
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            tensor_parallel_size=1,
            pipeline_parallel_size=stages,
        ),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
        ),
    )


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    os.environ["KVPLAN"], counts = sys.argv[1], [int(count) for count in sys.argv[2:]]
    manager.register()
    names = [f"model.layers.{index}.self_attn.attn" for index in range(LAYERS)]
    workers, first = [], 0
    for count in counts:
        workers.append({names[i]: spec(i) for i in range(first, first + count)})
        first += count
    made = config(len(counts))
    groups = kv_cache_planning.get_global_kv_cache_groups(made, workers)
    configs = kv_cache_planning.get_kv_cache_configs(
        made, workers, [AVAILABLE + (i << 20) for i in range(len(counts))], groups
    )
    answer = {
        "version": vllm.__version__,
        "groups": [len(group.layer_names) for group in groups],
        "held": [[len(g.layer_names) for g in one.kv_cache_groups] for one in configs],
        "blocks": [one.num_blocks for one in configs],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
