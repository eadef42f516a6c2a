"""ATOM's own flags (ROCm/ATOM), and the readings that size its pools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture, Compressed, Layer
from kvplan.models.engines.registry import Flag
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

COMPRESSED_BLOCK = 256  # DeepSeek-V4 forces it
ELEMENT_BYTES = {"auto": 2, "bf16": 2, "fp8": 1}

FLAGS = (
    Flag("--tensor-parallel-size", "count", 1, "tensor parallel ranks"),
    Flag("--pipeline-parallel-size", "count", 1, "pipeline stages"),
    Flag("--pp-layer-partition", "word", None, "layers of each stage: 20,20,20,18"),
    Flag("--decode-context-parallel-size", "count", 1, "ranks that share a request's tokens"),
    Flag("--block-size", "count", 16, "tokens of a block"),
    Flag("--kv_cache_dtype", "word", "auto", "element of keys and values", tuple(ELEMENT_BYTES)),
    Flag("--index-dtype", "word", "fp8", "DeepSeek-V4's indexer rows", ("fp8", "fp4")),
    Flag("--max-num-seqs", "count", 512, "requests at once; each has its state slots"),
    Flag("--max-model-len", "count", None, "longest request in tokens; default the model's"),
    Flag("--num-speculative-tokens", "count", 0, "draft tokens"),
    Flag("--replay-ssm", "switch", False, "one state a request whatever the drafts"),
    Flag("--state-extra-entries", "count", 0, "STATE_CKPT_EXTRA_ENTRIES: further states"),
    Flag("--state-staging-entries", "count", 0, "states of the offload ring"),
    Flag("--gpu-memory-utilization", "number", None, "share of the card's total"),
    Flag("--available", "bytes", None, "measured, a rank: available_for_kv", repeated=True),
    Flag("--free", "bytes", None, "measured: free bytes at the reading"),
    Flag("--peak-torch", "bytes", None, "measured: peak of the allocator"),
    Flag("--non-torch", "bytes", None, "measured: outside the allocator"),
    Flag("--graphs", "bytes", None, "estimate of the captured graphs"),
    Flag("--connector", "bytes", 0, "reserve of the KV connector"),
)


def block_tokens(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Tokens of a block: --block-size; 256 with compressed layers."""
    if any(isinstance(layer, Compressed) for layer in architecture.layers):
        return COMPRESSED_BLOCK
    return int(settings["block_size"])


def kept_layers(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[Layer, ...]:
    """Layers with a cache: the target's, and with speculation the draft's."""
    drafts = architecture.draft if settings["num_speculative_tokens"] else ()
    return (*architecture.target, *drafts)


def stage_layers(
    architecture: Architecture, settings: Mapping[str, Any]
) -> list[tuple[Layer, ...]]:
    """Layers by pipeline stage; the draft lies on the last.

    Raises
    ------
    InvalidProblem : stages that nothing partitions, or a partition of other layers.
    """
    stages, layers = int(settings["pipeline_parallel_size"]), kept_layers(architecture, settings)
    if stages == 1:
        return [layers]
    text, total = str(settings["pp_layer_partition"] or ""), architecture.total_layers
    sizes = [int(size) for size in text.split(",") if size.strip().isdecimal()]
    if len(sizes) != stages or sum(sizes) != total:
        expected = f"{stages} counts that sum to {total} layers"
        raise InvalidProblem.at("--pp-layer-partition", expected, shown(text or None))
    ends = [sum(sizes[: stage + 1]) for stage in range(stages)]
    return [
        tuple(
            layer
            for layer in layers
            if (stage == stages - 1 or layer.index < ends[stage])
            and layer.index >= ends[stage] - sizes[stage]
        )
        for stage in range(stages)
    ]
