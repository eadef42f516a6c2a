"""SGLang's own flags, and what they resolve to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import DTYPE_BITS, Architecture, Compressed
from kvplan.models.engines.registry import Flag
from kvplan.models.errors import Fault, InvalidProblem
from kvplan.models.messages import shown

FOUR_BITS = ("nvfp4", "fp4_mx_block16", "fp4_e2m1")  # their scales are not modelled
ELEMENT_BYTES = {"bf16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "mxfp8": 1}
DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
STRATEGIES = ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy")

FLAGS = (
    Flag("--disaggregation-mode", "word", "null", "other roles are not modelled", ("null",)),
    Flag("--attn-cp-size", "word", "1", "more are not modelled", ("1",)),
    Flag(
        "--available",
        "bytes",
        None,
        "measured: bytes left for all pools of a rank; one figure, or one for each stage",
        repeated=True,
    ),
    Flag("--free-before-load", "bytes", None, "measured: free bytes before the weights load"),
    Flag("--free-after-load", "bytes", None, "measured: free bytes after the weights load"),
    Flag("--mem-fraction-static", "number", None, "share for weights and pools"),
    Flag(
        "--kt-num-gpu-experts",
        "count",
        None,
        "ktransformers: experts of each layer on the card; --optimize finds the most",
    ),
    Flag("--host-memory", "bytes", None, "--optimize: of the host, which keeps every expert"),
    Flag("--device", "word", "cuda", "pages of an npu are not padded", ("cuda", "npu")),
    Flag(
        "--tp-size", "count", 1, "tensor parallel ranks", aliases=("--tensor-parallel-size", "--tp")
    ),
    Flag("--pp-size", "count", 1, "pipeline stages", aliases=("--pipeline-parallel-size", "--pp")),
    Flag("--pp-layer-partition", "word", None, "SGLANG_PP_LAYER_PARTITION: layers a stage, 16,32"),
    Flag(
        "--dp-size", "count", 1, "data parallel replicas", aliases=("--data-parallel-size", "--dp")
    ),
    Flag("--enable-dp-attention", "switch", False, "replicas share the tensor parallel ranks"),
    Flag(
        "--dcp-size",
        "count",
        1,
        "decode context parallel ranks",
        aliases=("--decode-context-parallel-size",),
    ),
    Flag("--page-size", "count", None, "tokens of a page; default by model, card and backend"),
    Flag("--dtype", "word", "auto", "weights", DTYPES),
    Flag("--attention-backend", "word", None, "kernels; default by model and card"),
    Flag("--prefill-attention-backend", "word", None, "kernels of the prefill"),
    Flag("--decode-attention-backend", "word", None, "kernels of the decode"),
    Flag("--dsa-prefill-backend", "word", None, "sparse attention: decides the rows"),
    Flag("--dsa-decode-backend", "word", None, "sparse attention: decides the rows"),
    Flag("--context-length", "count", None, "longest request in tokens; default the model's"),
    Flag(
        "--allow-longer-context",
        "switch",
        None,
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
    ),
    Flag("--json-model-override-args", "word", None, "JSON laid over the model's config"),
    Flag(
        "--kv-cache-dtype",
        "word",
        "auto",
        "element of keys and values",
        ("auto", *ELEMENT_BYTES, *FOUR_BITS),
    ),
    Flag("--max-total-tokens", "count", None, "tokens of the pool at most"),
    Flag("--max-running-requests", "count", None, "requests at once"),
    Flag("--chunked-prefill-size", "word", None, "prefill chunk in tokens; -1 switches it off"),
    Flag("--max-prefill-tokens", "count", 16384, "tokens of a prefill batch"),
    Flag("--disable-radix-cache", "switch", False, "no prefix reuse"),
    Flag("--disable-overlap-schedule", "switch", False, "one batch in flight"),
    Flag("--swa-full-tokens-ratio", "number", None, "window tokens for a full token (0.8)"),
    Flag("--swa-eviction-interval", "count", 128, "SGLANG_SWA_EVICTION_INTERVAL"),
    Flag("--disable-hybrid-swa-memory", "switch", False, "window layers keep every token"),
    Flag("--mamba-full-memory-ratio", "number", Fraction(9, 10), "state bytes for a byte of KV"),
    Flag("--max-mamba-cache-size", "count", None, "state slots"),
    Flag(
        "--mamba-radix-cache-strategy",
        "word",
        "auto",
        "state checkpoints",
        STRATEGIES,
        aliases=("--mamba-scheduler-strategy",),
    ),
    Flag("--mamba-ssm-dtype", "word", None, "element of recurrent states"),
    Flag("--speculative-algorithm", "word", None, "EAGLE(3), NEXTN, STANDALONE, NGRAM, DFLASH"),
    Flag(
        "--speculative-draft-model-path",
        "word",
        None,
        "the draft's config.json",
        aliases=("--speculative-draft-model",),
    ),
    Flag("--speculative-dflash-block-size", "count", None, "tokens of a DFLASH block"),
    Flag("--speculative-ngram-max-bfs-breadth", "count", 10, "branches of NGRAM"),
    Flag("--speculative-num-steps", "count", None, "draft steps"),
    Flag("--speculative-eagle-topk", "count", None, "draft branches"),
    Flag("--speculative-num-draft-tokens", "count", None, "tokens verified at once"),
    Flag("--speculative-draft-layers", "count", None, "layers of the draft; default the model's"),
)

FEWEST, MOST, PER_CONTEXT = 2048, 4096, 512
CHUNKS = ((20, 2048), (60, 4096), (160, 8192))
"""Cards below so many GiB, and their chunk; above the last 16384 (memory_hook.py)."""
LARGEST_CHUNK, USUAL_CHUNK = 16_384, 8192
SIZES = ("tp_size", "pp_size", "dp_size", "dcp_size", "page_size", "swa_eviction_interval")


def check_sizes(settings: Mapping[str, Any]) -> None:
    """Refuse sizes below 1, and replicas or context ranks that do not divide the ranks.

    Raises
    ------
    InvalidProblem : one fault for each flag.
    """
    faults = [
        Fault("--" + key.replace("_", "-"), "at least 1", shown(settings[key]))
        for key in SIZES
        if settings[key] is not None and int(settings[key]) < 1
    ]
    if faults:
        raise InvalidProblem(faults)
    ranks = int(settings["tp_size"])
    if ranks % replicas(settings):
        raise InvalidProblem.at(
            "--dp-size", f"a divisor of {ranks} ranks", shown(settings["dp_size"])
        )
    if attention_ranks(settings) % int(settings["dcp_size"]):
        expected = f"a divisor of {attention_ranks(settings)} ranks"
        raise InvalidProblem.at("--dcp-size", expected, shown(settings["dcp_size"]))


def element_bytes(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Bytes of one key or value; "auto" is the model's own dtype."""
    word = settings["kv_cache_dtype"]
    if word in FOUR_BITS:
        expected = f"one of auto, {', '.join(ELEMENT_BYTES)} (scales of 4 bits are not modelled)"
        raise InvalidProblem.at("--kv-cache-dtype", expected, shown(word))
    if word != "auto":
        return ELEMENT_BYTES[word]
    return DTYPE_BITS[model_dtype(architecture, settings)] // 8


def model_dtype(architecture: Architecture, settings: Mapping[str, Any]) -> str:
    """The dtype a model runs in: --dtype, or its config's (bfloat16 without one).

    auto runs a float32 config in float16.
    """
    word = settings["dtype"]
    if word != "auto":
        return {"half": "float16", "float": "float32"}.get(word, str(word))
    return {"float32": "float16", "": "bfloat16"}.get(architecture.dtype, architecture.dtype)


def chunk_tokens(settings: Mapping[str, Any]) -> int:
    """Tokens of a prefill chunk, 0 when switched off; the default follows the card's total.

    Raises
    ------
    InvalidProblem : no whole number of at least -1.
    """
    given = settings["chunked_prefill_size"]
    if given is not None:
        text = str(given)
        if text == "-1" or text.isdecimal():
            return max(0, int(text))
        expected = "tokens, or -1 for whole prompts"
        raise InvalidProblem.at("--chunked-prefill-size", expected, shown(given))
    total = settings.get("total_bytes")
    if total is None:
        return USUAL_CHUNK
    sizes = (chunk for gib, chunk in CHUNKS if total < gib * 2**30)
    return next(sizes, LARGEST_CHUNK)


def attention_ranks(settings: Mapping[str, Any]) -> int:
    """Ranks that share the heads: tp, or tp / dp under DP attention."""
    return int(settings["tp_size"]) // replicas(settings)


def replicas(settings: Mapping[str, Any]) -> int:
    """Attention replicas that share slots and requests (attn_dp_size)."""
    return int(settings["dp_size"]) if settings["enable_dp_attention"] else 1


def wanted_requests(settings: Mapping[str, Any]) -> int | None:
    """max_running_requests of one replica: max(1, flag // replicas)."""
    flag = settings["max_running_requests"]
    return None if flag is None else max(1, int(flag) // replicas(settings))


def estimated_requests(tokens: int, context: int) -> int:
    """Requests without --max-running-requests: 512 a context's worth of tokens, 2048 to 4096."""
    return max(FEWEST, min(MOST, tokens * PER_CONTEXT // context))


def draft_tokens(settings: Mapping[str, Any]) -> int:
    """Tokens that one verification holds (speculative_num_draft_tokens); 0 without speculation."""
    if settings["speculative_algorithm"] is None:
        return 0
    tokens = settings["speculative_num_draft_tokens"]
    if not tokens:
        raise InvalidProblem.at("--speculative-num-draft-tokens", "at least 1", shown(tokens))
    return int(tokens)


def swa_ratio(architecture: Architecture, settings: Mapping[str, Any]) -> Fraction:
    """--swa-full-tokens-ratio; 0.8 by default, 0.1 with DeepSeek-V4's compressed layers.

    Raises
    ------
    InvalidProblem : not above 0 and at most 1.
    """
    given = settings["swa_full_tokens_ratio"]
    if given is None:
        compressed = any(isinstance(layer, Compressed) for layer in architecture.layers)
        return Fraction(1, 10) if compressed else Fraction(4, 5)
    if not 0 < Fraction(given) <= 1:
        raise InvalidProblem.at("--swa-full-tokens-ratio", "above 0, at most 1", shown(given))
    return Fraction(given)


def ratio_rule(
    ratio: Fraction, pages: Sequence[tuple[Fraction, Fraction]], rests: Sequence[int]
) -> list[dict[str, Any]]:
    """Hold the engine's split: window = floor(r x full), and full pages as if r were met exactly.

    full x (F + r S) <= rest on every stage, with F and S the bytes of a full and a window page.
    """
    above, below = ratio.numerator, ratio.denominator
    terms = {"blocks:full": above, "blocks:window": -below}
    rules: list[dict[str, Any]] = [{"terms": terms, "min": 0, "max": below - 1}]
    weights = (full + ratio * window for full, window in pages)
    limits = sorted(set(zip(weights, rests, strict=True)))
    rules += [{"terms": {"blocks:full": str(weight)}, "max": rest} for weight, rest in limits]
    return rules
