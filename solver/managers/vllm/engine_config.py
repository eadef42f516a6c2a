"""What of vLLM's VllmConfig decides the pool, read without importing vLLM."""

from __future__ import annotations

from typing import Any

from kvplan.models.engines.vllm.block_groups import Serving
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.solver.managers.guard import LeftAlone


def serving_of(config: Any, version: Version, specs: list[Any]) -> Serving:
    """Read lengths, steps and layouts.

    Parameters
    ----------
    config : VllmConfig, or what has the attributes that are read here.
    specs : KVCacheSpec of every layer.
    """
    step = int(config.scheduler_config.max_num_batched_tokens)
    flight = int(getattr(config, "max_in_flight_tokens", step))
    checkpoints = [int(getattr(spec, "num_prefill_checkpoint_blocks", 0)) for spec in specs]
    return Serving(
        version=version,
        length_tokens=int(config.model_config.max_model_len),
        batch_tokens=step,
        batches_in_flight=max(1, flight // step),
        context_shards=int(config.parallel_config.decode_context_parallel_size),
        packed=is_packed(config),
        unify_hybrid=bool(config.scheduler_config.disable_hybrid_kv_cache_manager),
        checkpoint_blocks=max(checkpoints, default=0),
        strided=any(getattr(spec, "indexes_kv_by_block_stride", False) for spec in specs),
    )


def is_packed(config: Any) -> bool:
    """Whether the KV cache is laid out block-outermost (from 0.29 on)."""
    ask = getattr(config.cache_config, "get_resolved_kv_cache_layout", None)
    return ask is not None and bool(ask().is_block_outermost)


def fits_length(config: Any) -> bool:
    """Whether --max-model-len is auto: the longest length that fits is taken."""
    return getattr(config.model_config, "original_max_model_len", None) == -1


def check_modelled(config: Any, specs: list[Any]) -> None:
    """Leave alone what is not modelled yet.

    Raises
    ------
    LeftAlone : speculative decoding, host-backed caches, a model or a platform that groups its
        layers itself, or no cache at all.
    """
    if not specs:
        raise LeftAlone("a model without a KV cache")
    if getattr(config, "speculative_config", None) is not None:
        raise LeftAlone("speculative decoding (draft layers and EAGLE groups) is not modelled")
    attention = getattr(config, "attention_config", None)
    if getattr(attention, "hisparse_config", None) is not None:
        raise LeftAlone("HiSparse is not modelled")
    if getattr(config.model_config, "supports_kv_cache_grouping", False):
        raise LeftAlone("the model groups its layers itself")
