"""--attention-config: the backend and the indexer's element, also under flags of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture, Attention, Latent
from kvplan.models.engines.vllm.launch.json_values import Keys, read_json
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

FLAG = "--attention-config"
KEYS = Keys(
    read=("backend", "indexer_kv_dtype", "use_fp4_indexer_cache"),
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
    },
)


def _config(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    text = settings["attention_config"]
    return {} if text is None else read_json(FLAG, text, KEYS)


def attention_backend(settings: Mapping[str, Any]) -> str | None:
    """Name of the kernel, in capitals: --attention-backend, or "backend" of --attention-config."""
    given = settings["attention_backend"] or _config(settings).get("backend")
    return str(given).upper() if given else None


def indexer_dtype(settings: Mapping[str, Any]) -> str:
    """Element of a sparse indexer's keys: auto, fp8, bf16 or mxfp4.

    (indexer_kv_dtype; before 0.28 use_fp4_indexer_cache.)

    Raises
    ------
    InvalidProblem : an element that no indexer has.
    """
    config = _config(settings)
    word = str(config.get("indexer_kv_dtype", "auto")).removesuffix("_e4m3")
    if word not in ("auto", "fp8", "bf16", "mxfp4"):
        raise InvalidProblem.at(f"{FLAG}.indexer_kv_dtype", "auto, fp8 or mxfp4", shown(word))
    return "mxfp4" if config.get("use_fp4_indexer_cache") else word


def check_indexer(architecture: Architecture, settings: Mapping[str, Any]) -> None:
    """Refuse another element of the keys where their bytes are not known.

    Raises
    ------
    InvalidProblem : MXFP4 or bf16 keys of an indexer that has none.
    """
    word, where = indexer_dtype(settings), f"{FLAG}.indexer_kv_dtype"
    if word not in ("mxfp4", "bf16"):
        return
    layers = architecture.layers
    if any(isinstance(one, Latent) and one.index_dim for one in layers):
        expected = "fp8 (MXFP4 keys are modelled for DeepSeek-V4 alone)"
        raise InvalidProblem.at(where, expected, word)
    by_head = any(isinstance(one, Attention) and one.index_dim for one in layers)
    if by_head and word == "mxfp4":
        raise InvalidProblem.at(where, "bf16 or fp8", word)
