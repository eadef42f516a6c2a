"""kvplan's question and apply with vLLM's real planning, outside a start; prints JSON.

Arguments: the layers of each pipeline stage (0.33 only).
"""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from typing import Any

import torch
import vllm
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

from kvplan import InvalidProblem, plan
from kvplan.solver.managers import vllm as manager
from kvplan.solver.managers.workload import Workload

LAYERS, FULL_EVERY, AVAILABLE = 29, 7, 1 << 27
COMMON: dict[str, Any] = {"block_size": 16, "num_kv_heads": 2, "head_size": 32}


def spec(index: int) -> Any:
    if index % FULL_EVERY == FULL_EVERY - 1:
        return FullAttentionSpec(**COMMON, dtype=torch.float32)
    return SlidingWindowSpec(sliding_window=256, **COMMON, dtype=torch.float32)


def config(stages: int) -> Any:
    if vllm.__version__.startswith("0.33"):
        import vllm_033

        return vllm_033.config(stages)
    import vllm_real

    return vllm_real.config_of(4096, 512, 16)


def workers(counts: list[int]) -> list[dict[str, Any]]:
    ends = list(accumulate(counts))
    stages = [range(end - count, end) for count, end in zip(counts, ends, strict=True)]
    return [{f"model.layers.{i}.self_attn.attn": spec(i) for i in stage} for stage in stages]


def sized(answer: Any, given: tuple[Any, ...], version: str) -> dict[str, Any]:
    configs = manager.apply(answer, *given, version=version)
    return {
        "types": sorted({type(each).__name__ for each in configs}),
        "groups": [len(group.layer_names) for group in configs[0].kv_cache_groups],
        "blocks": [each.num_blocks for each in configs],
        "planned": answer.blocks["paged"],
        "bytes": [max(tensor.size for tensor in each.kv_cache_tensors) for each in configs],
        "used": [rank.used for rank in answer.ranks],
    }


def main() -> None:
    counts = [int(count) for count in sys.argv[1:]] or [LAYERS]
    version = vllm.__version__.split("+")[0]
    available = [AVAILABLE + (i << 20) for i in range(len(counts))]
    given = (config(len(counts)), workers(counts), available)
    expected = Workload(requests=[{"capacity": 3000}])
    own = plan(manager.question(*given, version=version))
    best = plan(manager.question(*given, expected, version=version))
    found = {"own": sized(own, given, version), "workload": sized(best, given, version)}
    try:
        manager.apply(best, *given[:2], [each // 2 for each in available], version=version)
    except InvalidProblem as error:
        found["refused"] = {"text": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
