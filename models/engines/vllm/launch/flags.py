"""vLLM's own flags, as far as the sizes depend on them."""

from __future__ import annotations

from kvplan.models.engines.registry import Flag

HUMAN = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}
"""Letters behind a number (vllm/utils/argparse_utils.py, human_readable_int)."""
KV_DTYPES = (
    *("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    *("int8_per_token_head", "fp8_per_token_head", "nvfp4", "fp8_ds_mla"),
)
STATE_DTYPES = ("auto", "float32", "float16", "bfloat16")
WEIGHT_DTYPES = ("auto", "bfloat16", "float16", "float32", "half", "float")
LAYOUTS = ("LBNHC", "LBHNC", "LHBNC", "NHD", "HND", "BLHNC", "BLNHC", "BHLNC")
MODES = ("balanced", "interactivity", "throughput")

FLAGS = (
    Flag("--engine-version", "word", "0.33.0", "vLLM's version, 0.19 to 0.33"),
    Flag("--dtype", "word", "auto", "weights", WEIGHT_DTYPES),
    Flag("--kv-cache-dtype", "word", "auto", "element of keys and values", KV_DTYPES),
    Flag("--block-size", "count", None, "tokens of a block"),
    Flag("--max-model-len", "word", None, "longest request in tokens; auto or -1: what fits"),
    Flag("--allow-long-max-model-len", "switch", None, "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"),
    Flag(
        "--max-num-batched-tokens",
        "count",
        None,
        "tokens of a step (the prefill chunk)",
        suffixes=HUMAN,
    ),
    Flag("--max-num-seqs", "count", None, "requests of a step; a hybrid's need a state each"),
    Flag("--tensor-parallel-size", "count", 1, "tensor parallel ranks", aliases=("-tp",)),
    Flag("--pipeline-parallel-size", "count", 1, "pipeline stages", aliases=("-pp",)),
    Flag(
        "--decode-context-parallel-size",
        "count",
        1,
        "ranks that share a request's tokens",
        aliases=("-dcp",),
    ),
    Flag("--pp-layer-partition", "word", None, "VLLM_PP_LAYER_PARTITION: layers a stage, 16,32"),
    Flag(
        "--async-scheduling", "switch", None, "batches overlap; --no-async-scheduling: they do not"
    ),
    Flag("--v2-model-runner", "switch", None, "VLLM_USE_V2_MODEL_RUNNER=1"),
    Flag("--enforce-eager", "switch", None, "no CUDA graphs"),
    Flag("--compilation-config", "word", None, "JSON: cudagraph_mode", aliases=("-cc",)),
    Flag("--optimization-level", "word", None, "-O0: no CUDA graphs; -O1: of pieces alone"),
    Flag("--performance-mode", "word", "balanced", "throughput: twice the steps", MODES),
    Flag("--enable-chunked-prefill", "switch", None, "off: a step holds a whole request"),
    Flag("--attention-backend", "word", None, "kernel, such as FLASH_ATTN"),
    Flag("--disable-hybrid-kv-cache-manager", "switch", None, "windows are held in full"),
    Flag("--kv-cache-layout", "word", "LBNHC", "VLLM_KV_CACHE_LAYOUT", LAYOUTS),
    Flag("--enable-prefix-caching", "switch", None, "with states: they are kept, too"),
    Flag("--mamba-cache-mode", "word", None, "states kept a request", ("none", "align", "all")),
    Flag("--mamba-block-size", "count", None, "tokens of a state's block (modes align, all)"),
    Flag("--mamba-cache-dtype", "word", "auto", "convolution states", STATE_DTYPES),
    Flag("--mamba-ssm-cache-dtype", "word", "auto", "recurrent states", STATE_DTYPES),
    Flag(
        "--speculative-config",
        "word",
        None,
        '{"method": "mtp", "num_speculative_tokens": 3}',
        aliases=("-sc",),
    ),
    Flag("--spec-method", "word", None, "method of --speculative-config"),
    Flag("--spec-model", "word", None, "model of --speculative-config: its config.json"),
    Flag("--spec-tokens", "count", None, "num_speculative_tokens of --speculative-config"),
    Flag(
        "--kv-cache-dtype-skip-layers",
        "word",
        None,
        "layers that keep auto: 0 7, sliding_window",
        many=True,
    ),
    Flag(
        "--prefill-context-parallel-size", "count", 1, "1 (more is not modelled)", aliases=("-pcp",)
    ),
    Flag("--kv-transfer-config", "word", None, "JSON of a KV connector"),
    Flag("--attention-config", "word", None, "JSON: backend", aliases=("-ac",)),
    Flag("--runner", "word", "auto", "generate", ("auto", "generate")),
    Flag("--rope-scaling", "word", None, "JSON, of older versions; now --hf-overrides"),
    Flag("--estimate-graphs", "switch", None, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
    Flag("--hf-overrides", "word", None, "JSON laid over the model's config"),
    Flag(
        "--gpu-memory-utilization",
        "number",
        None,
        "share of the card's total",
        aliases=("--device-memory-utilization",),
    ),
    Flag(
        "--kv-cache-memory-bytes",
        "bytes",
        None,
        "bytes for the cache, nothing measured",
        aliases=("--kv-cache-memory",),
        suffixes=HUMAN,
    ),
    Flag("--num-gpu-blocks-override", "count", None, "blocks, whatever the memory"),
    Flag(
        "--available", "bytes", None, "measured, a rank: Available KV cache memory", repeated=True
    ),
    Flag("--activation", "bytes", None, "measured: peak of the profile run over the weights"),
    Flag("--non-torch", "bytes", None, "measured: outside the allocator"),
    Flag("--group-layers", "count", 0, "patched builds: layers of a group"),
    Flag("--compact-draft-pages", "switch", False, "1Cat-vLLM: draft pages no larger than others"),
    Flag("--prefill-checkpoint-blocks", "count", 0, "mode align from 0.33: blocks more a request"),
    Flag("--graphs", "bytes", None, "measured or logged estimate of the CUDA graphs"),
)
