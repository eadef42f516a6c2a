"""Stand-ins with the attributes of vLLM's own objects that kvplan reads, from recorded layouts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kvplan.models.engines.vllm.dump import spec_of_dump
from support.vllm import Case

CLASSES = {
    "full": "FullAttentionSpec",
    "window": "SlidingWindowSpec",
    "chunked": "ChunkedLocalAttentionSpec",
    "mla": "MLAAttentionSpec",
    "mamba": "MambaSpec",
}
_RENAMED = {"window": "sliding_window", "chunk": "attention_chunk_size"}


def spec_object(data: dict[str, Any]) -> Any:
    """A KVCacheSpec of the class of that name."""
    spec = spec_of_dump(data)
    fields = {_RENAMED.get(key, key): value for key, value in data.items() if key != "kind"}
    fields.setdefault("page_size_padded", None)
    kind = type(CLASSES[data["kind"]], (SimpleNamespace,), {
        "page_size_bytes": spec.page_bytes, "real_page_size_bytes": spec.own_bytes
    })  # fmt: skip
    return kind(**fields)


def config_object(data: dict[str, Any], **changes: Any) -> Any:
    """A VllmConfig."""
    stages = len(data.get("stages") or [1])
    step = data["max_num_batched_tokens"]
    batches = stages if stages > 1 else 1 + bool(data.get("async_scheduling"))
    length = data["max_model_len"]
    layout = SimpleNamespace(is_block_outermost=data.get("packed", False))
    return SimpleNamespace(
        max_in_flight_tokens=step * batches,
        speculative_config=None,
        attention_config=SimpleNamespace(hisparse_config=None),
        model_config=SimpleNamespace(
            max_model_len=length, original_max_model_len=-1 if data.get("auto_fit") else length
        ),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=step,
            disable_hybrid_kv_cache_manager=bool(data.get("disable_hybrid")),
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=data.get("dcp") or 1, pipeline_parallel_size=stages
        ),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=data.get("num_gpu_blocks_override"),
            get_resolved_kv_cache_layout=lambda: layout,
        ),
        **changes,
    )


def objects(case: Case) -> tuple[Any, list[dict[str, Any]], list[int], str]:
    """Config, specs of every worker, their bytes, and vLLM's version."""
    data = {**case.data, "packed": case.version.endswith("BLHNC")}
    names = [f"model.layers.{index}.attn" for index in range(len(case.layers))]
    specs = {
        name: spec_object(case.data["specs"][kind])
        for name, kind in zip(names, case.layers, strict=True)
    }
    stages = case.data.get("stages") or [len(names)]
    each = max(1, len(case.data["available"]) // len(stages))
    workers, first = [], 0
    for layers in stages:
        held = {name: specs[name] for name in names[first : first + layers]}
        workers += [held] * each
        first += layers
    return config_object(data), workers, case.data["available"], case.version.partition("/")[0]
