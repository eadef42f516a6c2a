"""From flags to what the pool depends on: lengths, steps, batches, layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture, Compressed
from kvplan.models.engines.vllm.block_groups import Serving
from kvplan.models.engines.vllm.launch.attention_config import attention_backend
from kvplan.models.engines.vllm.launch.defaults import sequences, step_tokens
from kvplan.models.engines.vllm.launch.retired import check_supported
from kvplan.models.engines.vllm.launch.runner import batches_in_flight
from kvplan.models.engines.vllm.launch.speculation import speculation
from kvplan.models.engines.vllm.launch.versions import Version, version_of
from kvplan.models.engines.vllm.max_model_len import length_tokens
from kvplan.models.errors import InvalidProblem


def _checked_steps(settings: Mapping[str, Any], version: Version, length: int, step: int) -> None:
    """What SchedulerConfig.verify_max_model_len refuses.

    Raises
    ------
    InvalidProblem : a step below --max-num-seqs, or below the length without chunked prefill.
    """
    requests = sequences(settings, version)
    if requests.value < 1:
        raise InvalidProblem.at("--max-num-seqs", "at least 1", str(requests.value))
    if step < requests.value:
        raise InvalidProblem.at(
            "--max-num-batched-tokens",
            f"at least --max-num-seqs ({requests.value}), or --max-num-seqs {step}",
            str(step),
        )
    if settings["enable_chunked_prefill"] is False and step < length:
        expected = f"at least --max-model-len ({length}) without chunked prefill"
        raise InvalidProblem.at("--max-num-batched-tokens", expected, str(step))


def serving_of(architecture: Architecture, settings: Mapping[str, Any]) -> Serving:
    """Read what the pool depends on.

    Raises
    ------
    InvalidProblem : what this version of vLLM would refuse.
    """
    version = version_of(settings["engine_version"])
    check_supported(architecture, settings, version)
    draft = speculation(architecture, settings)
    modules = sum(layer.draft for layer in draft.layers)
    layout = settings["kv_cache_layout"]
    compressed = any(isinstance(layer, Compressed) for layer in architecture.layers)
    packed = settings["kv_cache_layout"].startswith("B")
    if packed and not version.has_packed_layout:
        raise InvalidProblem.at("--kv-cache-layout", f"LBNHC with vLLM {version.text}", layout)
    length = length_tokens(architecture, settings)[0]
    step = step_tokens(settings, version, length).value
    _checked_steps(settings, version, length, step)
    return Serving(
        version=version,
        length_tokens=length,
        batch_tokens=step,
        batches_in_flight=batches_in_flight(settings, version, architecture, draft).value,
        context_shards=max(1, int(settings["decode_context_parallel_size"])),
        packed=packed or (compressed and version.packs_compressed_layers),
        unify_hybrid=bool(settings["disable_hybrid_kv_cache_manager"]),
        checkpoint_blocks=int(settings["prefill_checkpoint_blocks"]),
        retained_tokens=max(0, draft.tokens - 1) if modules > 1 else 0,
        group_layers=int(settings["group_layers"]),
        compact_windows=bool(settings["compact_draft_pages"]),
        strided=version.pads_strided_pages and _strided(settings),
    )


def _strided(settings: Mapping[str, Any]) -> bool:
    """Whether the attention backend reads pages by the block's stride: FlashAttention, Triton."""
    return attention_backend(settings) in (None, "FLASH_ATTN", "TRITON_ATTN")
