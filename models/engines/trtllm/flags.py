"""TensorRT-LLM's own flags, as far as KVCacheManagerV2's sizing goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.registry import Flag

ELEMENT_BITS = {"auto": 16, "bf16": 16, "fp8": 8, "nvfp4": 4}
POLICIES = ("FIXED", "FIT_TO_QUOTA")

SERVER, SERVER_REQUESTS = "trtllm-serve", 2048
"""BuildConfig's max_batch_size, which the server's default is (commands/serve.py)."""

FLAGS = (
    Flag("--available", "bytes", None, "measured: quota of the GPU tier"),
    Flag("--free", "bytes", None, "measured: free bytes after the weights load"),
    Flag(
        "--free_gpu_memory_fraction",
        "number",
        "0.9",
        "share of the free bytes",
        aliases=("--kv_cache_free_gpu_memory_fraction",),
    ),
    Flag(
        "--tp_size", "count", 1, "tensor parallel ranks", aliases=("--tensor_parallel_size", "--tp")
    ),
    Flag("--pp_size", "count", 1, "pipeline stages", aliases=("--pipeline_parallel_size",)),
    Flag("--kv_cache_dtype", "word", "auto", "element of keys and values", tuple(ELEMENT_BITS)),
    Flag("--mamba_ssm_cache_dtype", "word", "auto", "element of recurrent states"),
    Flag("--backend", "word", "pytorch", "other backends are not modelled", ("pytorch",)),
    Flag(
        "--context_parallel_size",
        "word",
        "1",
        "more are not modelled",
        ("1",),
        aliases=("--cp_size",),
    ),
    Flag("--max_beam_width", "word", "1", "more are not modelled", ("1",)),
    Flag("--tokens_per_block", "count", 32, "tokens of a block"),
    Flag("--max_seq_len", "count", None, "longest request in tokens; default the model's"),
    Flag("--allow_long_max_model_len", "switch", None, "TLLM_ALLOW_LONG_MAX_MODEL_LEN=1"),
    Flag("--max_batch_size", "count", None, "requests at once; trtllm-serve's default is 2048"),
    Flag("--max_num_tokens", "count", 8192, "tokens of a step"),
    Flag("--avg_seq_len", "count", None, "tokens of a typical request; decides the ratio"),
    Flag("--max_util_for_resume", "number", "0.95", "share of a pool in use at a resume"),
    Flag("--max_rewind_len", "count", None, "scratch reuse: tokens that may be taken back"),
    Flag("--num_speculative_tokens", "count", 0, "draft tokens"),
    Flag("--state_headroom", "switch", False, "state pools are divided by it, too (older)"),
    Flag("--constraint_policy", "word", "FIXED", "whether the longest may shrink", POLICIES),
)


def requests_of(settings: Mapping[str, Any]) -> int:
    """--max_batch_size: the server's 2048 on a launch line of its own, else 1."""
    if settings["max_batch_size"] is not None:
        return int(settings["max_batch_size"])
    served = str(settings.get("program") or "").startswith(SERVER)
    return SERVER_REQUESTS if served else 1
