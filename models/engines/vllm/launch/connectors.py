"""Flags that matter for some models only: connectors, contexts, scaled positions, JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.launch.json_values import Keys, read_json
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

_ATTENTION = Keys(
    read=("backend",),
    harmless=(
        *("flash_attn_version", "use_trtllm_attention", "disable_flashinfer_prefill"),
        *("flash_attn_max_num_splits_for_cuda_graph", "use_cudnn_prefill", "mla_prefill_backend"),
        *("use_trtllm_ragged_deepseek_prefill", "disable_flashinfer_q_quantization"),
        *("use_prefill_query_quantization", "use_prefill_decode_attention", "use_non_causal"),
        *("tokenspeed_mla_min_split_kv", "tq_max_kv_splits_for_cuda_graph", "backend_per_kind"),
        *("trtllm_ragged_backend", "indexer_sparse_logits", "indexer_tp_shard_min_rows"),
        *("sparse_mla_force_mqa", "sparse_mla_prefill_workspace_factor", "flex_attn_block_m"),
        *("flex_attn_block_n", "flex_attn_q_block_size", "flex_attn_kv_block_size"),
        *("minimax_m3_msa_decode_backend", "minimax_m3_indexer_cp"),
    ),
    refused={
        "hisparse_config": "none (host pages are not modelled)",
        "indexer_kv_dtype": "none (another element of the indexer's keys is not modelled)",
    },
)


def check_other_flags(
    architecture: Architecture, settings: Mapping[str, Any], specs: Sequence[Spec]
) -> None:
    """Refuse what changes the sizes of this model and is not modelled.

    Raises
    ------
    InvalidProblem : with the flag and the reason.
    """
    contexts = int(settings["prefill_context_parallel_size"])
    if contexts != 1:
        flag = "--prefill-context-parallel-size"
        raise InvalidProblem.at(flag, "1 (more is not modelled)", str(contexts))
    if settings["rope_scaling"] is not None and settings["max_model_len"] is None:
        expected = "--max-model-len beside it (the length it would derive is not modelled)"
        raise InvalidProblem.at("--rope-scaling", expected, shown(settings["rope_scaling"]))
    if settings["attention_config"] is not None:
        read_json("--attention-config", settings["attention_config"], _ATTENTION)
    several = len({spec.family for spec in specs}) > 1
    apart = several and not settings["disable_hybrid_kv_cache_manager"]
    if settings["kv_transfer_config"] is not None and apart:
        raise InvalidProblem.at(
            "--kv-transfer-config",
            "none, or --disable-hybrid-kv-cache-manager beside it (whether a connector keeps "
            f"the groups of {architecture.name} is not modelled)",
            shown(settings["kv_transfer_config"]),
        )
