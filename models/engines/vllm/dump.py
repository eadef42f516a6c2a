"""vLLM's own KV cache specs, written down layer by layer, instead of a model's config.

    specs: {full: {kind: full, block_size: 16, num_kv_heads: 8, head_size: 128, dtype: bfloat16},
            swa: {kind: window, window: 1024, ...}}
    layers: [full, swa, swa, ...]

kinds: full, window, chunked, mla, mamba (shapes and dtypes of its tensors, page_size_padded,
num_speculative_blocks, mamba_cache_mode). Heads are those of a rank, as the engine holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import DTYPE_BITS, Tensor
from kvplan.models.engines.vllm.block_groups import Serving, stages_of
from kvplan.models.engines.vllm.launch.server import Server
from kvplan.models.engines.vllm.launch.versions import version_of
from kvplan.models.engines.vllm.paging.grouping import layout_of
from kvplan.models.engines.vllm.pool_problem import Worker
from kvplan.models.engines.vllm.spec import Spec

DS_MLA_BYTES = 656


def server_of_dump(data: Mapping[str, Any], version: str) -> Server:
    """Resolve a dump under one version; "0.33.0/BLHNC" names a packed layout, too.

    Further keys: max_model_len, max_num_batched_tokens, async_scheduling, stages (layers of each
    pipeline stage), dcp, disable_hybrid, auto_fit, num_gpu_blocks_override, and available (bytes
    of each rank, stage by stage).

    Raises
    ------
    InvalidProblem : the version refuses these layers.
    """
    serving = serving_of_dump(data, version)
    specs = [spec_of_dump(data["specs"][name]) for name in data["layers"]]
    stages = data.get("stages") or [len(specs)]
    each = max(1, len(data["available"]) // len(stages))
    workers = [
        Worker(f"rank{index}", index // each, {"quota": quota}, quota)
        for index, quota in enumerate(data["available"])
    ]
    return Server(
        serving=serving,
        specs=tuple(specs),
        layout=layout_of(specs, serving, stages_of(stages)),
        workers=tuple(workers),
        auto_fit=bool(data.get("auto_fit")),
        override_blocks=data.get("num_gpu_blocks_override"),
    )


def serving_of_dump(data: Mapping[str, Any], version: str) -> Serving:
    """Read what the pool depends on beside the specs."""
    number, _, layout = version.partition("/")
    stages = len(data.get("stages") or [1])
    return Serving(
        version=version_of(number),
        length_tokens=data["max_model_len"],
        batch_tokens=data["max_num_batched_tokens"],
        batches_in_flight=stages if stages > 1 else 1 + bool(data.get("async_scheduling")),
        context_shards=data.get("dcp") or 1,
        packed=bool(layout),
        unify_hybrid=bool(data.get("disable_hybrid")),
    )


def spec_of_dump(data: Mapping[str, Any]) -> Spec:
    """Read one spec."""
    kind, block = data["kind"], data["block_size"]
    if kind == "mamba":
        tensors = zip(data["shapes"], data["dtypes"], strict=True)
        return Spec(
            "mamba",
            block,
            state_bytes=sum(Tensor(tuple(shape), dtype).bytes for shape, dtype in tensors),
            padded_bytes=data.get("page_size_padded"),
            mode=data.get("mamba_cache_mode") or "none",
            speculative_blocks=data.get("num_speculative_blocks") or 0,
        )
    element = DTYPE_BITS[data["dtype"]] // 8
    identity = (data["num_kv_heads"], data["head_size"], data["dtype"])
    if kind == "mla":
        named = data.get("cache_dtype_str")
        row = DS_MLA_BYTES if named == "fp8_ds_mla" else data["head_size"] * element
        return Spec("mla", block, Fraction(row), identity=identity, named_dtype=named)
    row = data["num_kv_heads"] * (data["head_size"] + data.get("head_size_v", data["head_size"]))
    reach = data.get("window") or data.get("chunk")
    return Spec(kind, block, Fraction(row * element), reach=reach, identity=identity)
