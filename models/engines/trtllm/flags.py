"""TensorRT-LLM's own flags, as far as KVCacheManagerV2's sizing goes."""

from __future__ import annotations

from kvplan.models.engines.registry import Flag

ELEMENT_BITS = {"auto": 16, "bf16": 16, "fp8": 8, "nvfp4": 4}
POLICIES = ("FIXED", "FIT_TO_QUOTA")

FLAGS = (
    Flag("--available", "bytes", None, "measured: quota of the GPU tier"),
    Flag("--free", "bytes", None, "measured: free bytes after the weights load"),
    Flag("--free_gpu_memory_fraction", "number", "0.9", "share of the free bytes"),
    Flag("--tp_size", "count", 1, "tensor parallel ranks"),
    Flag("--kv_cache_dtype", "word", "auto", "element of keys and values", tuple(ELEMENT_BITS)),
    Flag("--mamba_ssm_cache_dtype", "word", "auto", "element of recurrent states"),
    Flag("--tokens_per_block", "count", 32, "tokens of a block"),
    Flag("--max_seq_len", "count", None, "longest request in tokens; default the model's"),
    Flag("--max_batch_size", "count", 1, "requests at once"),
    Flag("--max_num_tokens", "count", 8192, "tokens of a step"),
    Flag("--avg_seq_len", "count", None, "tokens of a typical request; decides the ratio"),
    Flag("--max_util_for_resume", "number", "0.95", "share of a pool in use at a resume"),
    Flag("--max_rewind_len", "count", None, "scratch reuse: tokens that may be taken back"),
    Flag("--num_speculative_tokens", "count", 0, "draft tokens"),
    Flag("--state_headroom", "switch", False, "state pools are divided by it, too (older)"),
    Flag("--constraint_policy", "word", "FIXED", "whether the longest may shrink", POLICIES),
)
