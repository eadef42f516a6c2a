"""vLLM's own flags, and what they resolve to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture, Layer
from kvplan.models.engines.registry import Flag
from kvplan.models.engines.vllm.layout import Serving
from kvplan.models.engines.vllm.versions import Version, version_of
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown
from kvplan.models.reading.loader import parse_text

KV_DTYPES = (
    *("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    *("int8_per_token_head", "fp8_per_token_head", "nvfp4", "fp8_ds_mla"),
)
STATE_DTYPES = ("auto", "float32", "float16", "bfloat16")
LARGE_CARD_BYTES = 70 * 2**30
MOST_DRAFTS = 1024

FLAGS = (
    Flag("--engine-version", "word", "0.33.0", "vLLM's version, 0.19 to 0.33"),
    Flag("--dtype", "word", "auto", "weights", ("auto", "bfloat16", "float16", "float32")),
    Flag("--kv-cache-dtype", "word", "auto", "element of keys and values", KV_DTYPES),
    Flag("--block-size", "count", None, "tokens of a block"),
    Flag("--max-model-len", "word", None, "longest request in tokens; auto or -1: what fits"),
    Flag("--max-num-batched-tokens", "count", None, "tokens of a step (the prefill chunk)"),
    Flag("--max-num-seqs", "count", None, "requests of a step; for estimates"),
    Flag("--tensor-parallel-size", "count", 1, "tensor parallel ranks"),
    Flag("--pipeline-parallel-size", "count", 1, "pipeline stages"),
    Flag("--decode-context-parallel-size", "count", 1, "ranks that share a request's tokens"),
    Flag("--pp-layer-partition", "word", None, "VLLM_PP_LAYER_PARTITION: layers a stage, 16,32"),
    Flag("--no-async-scheduling", "switch", False, "one batch in flight"),
    Flag("--v2-model-runner", "switch", False, "VLLM_USE_V2_MODEL_RUNNER=1"),
    Flag("--disable-hybrid-kv-cache-manager", "switch", False, "windows are held in full"),
    Flag("--kv-cache-layout", "word", "LBNHC", "VLLM_KV_CACHE_LAYOUT", ("LBNHC", "BLHNC")),
    Flag("--enable-prefix-caching", "switch", False, "of states: mode align"),
    Flag("--mamba-cache-mode", "word", None, "states kept a request", ("none", "align", "all")),
    Flag("--mamba-block-size", "count", None, "tokens of a state's block (modes align, all)"),
    Flag("--mamba-cache-dtype", "word", "auto", "convolution states", STATE_DTYPES),
    Flag("--mamba-ssm-cache-dtype", "word", "auto", "recurrent states", STATE_DTYPES),
    Flag("--speculative-config", "word", None, '{"method": "mtp", "num_speculative_tokens": 3}'),
    Flag("--gpu-memory-utilization", "number", None, "share of the card's total"),
    Flag("--kv-cache-memory-bytes", "bytes", None, "bytes for the cache, nothing measured"),
    Flag("--num-gpu-blocks-override", "count", None, "blocks, whatever the memory"),
    Flag(
        "--available", "bytes", None, "measured, a rank: Available KV cache memory", repeated=True
    ),
    Flag("--activation", "bytes", None, "measured: peak of the profile run over the weights"),
    Flag("--non-torch", "bytes", None, "measured: outside the allocator"),
    Flag("--group-layers", "count", 0, "patched builds: layers of a group"),
    Flag("--compact-draft-pages", "switch", False, "1Cat-vLLM: draft pages no larger than others"),
    Flag("--graphs", "bytes", None, "measured or logged estimate of the CUDA graphs"),
)


@dataclass(frozen=True)
class Speculation:
    """Draft tokens, and the draft's own layers behind the target's."""

    method: str = ""
    tokens: int = 0
    layers: tuple[Layer, ...] = field(default=())
    dtype: str = ""


def speculation(architecture: Architecture, settings: Mapping[str, Any]) -> Speculation:
    """Read --speculative-config: MTP uses the model's draft layers, another model its own config.

    Raises
    ------
    InvalidProblem : no JSON, no token count, or draft layers that nothing describes.
    """
    text = settings["speculative_config"]
    if text is None:
        return Speculation()
    data = parse_text(text, name="--speculative-config")
    if not isinstance(data, Mapping) or not isinstance(data.get("num_speculative_tokens"), int):
        expected = 'JSON with "method" and "num_speculative_tokens"'
        raise InvalidProblem.at("--speculative-config", expected, shown(text))
    method, tokens = str(data.get("method", "mtp")), int(data["num_speculative_tokens"])
    if not 0 < tokens <= MOST_DRAFTS:
        expected = f"num_speculative_tokens from 1 to {MOST_DRAFTS}"
        raise InvalidProblem.at("--speculative-config", expected, shown(tokens))
    if method in ("ngram", "suffix"):
        return Speculation(method, tokens)
    if "model" in data:
        from kvplan.models.engines.architecture import load_architecture

        draft = load_architecture(str(data["model"]))
        return Speculation(method, tokens, draft.target, draft.dtype)
    if "mtp" not in method:
        expected = f'"model": the draft\'s config.json, for method {method}'
        raise InvalidProblem.at("--speculative-config", expected, shown(text))
    if not architecture.draft:
        expected = "a config with MTP layers (num_nextn_predict_layers or mtp_num_hidden_layers)"
        raise InvalidProblem.at("--speculative-config", expected, architecture.name)
    return Speculation(method, tokens, architecture.draft)


def weights_dtype(architecture: Architecture, settings: Mapping[str, Any]) -> str:
    """--dtype, or the config's.

    Raises
    ------
    InvalidProblem : neither says it.
    """
    word = settings["dtype"] if settings["dtype"] != "auto" else architecture.dtype
    if not word:
        raise InvalidProblem.at("--dtype", "bfloat16 or float16 (the config names none)", "auto")
    return str(word)


def length_tokens(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[int, bool]:
    """Longest request, and whether it may shrink (auto, -1)."""
    text = settings["max_model_len"]
    if text in ("auto", "-1") or text is None:
        if not architecture.max_positions:
            raise InvalidProblem.at("--max-model-len", "tokens (the config names none)", "none")
        return architecture.max_positions, text is not None
    if not str(text).isdecimal() or int(text) < 1:
        raise InvalidProblem.at("--max-model-len", "tokens, or auto", shown(text))
    return int(text), False


def batch_tokens(settings: Mapping[str, Any]) -> int:
    """--max-num-batched-tokens; a server's default is 8192 on cards of 70 GiB and more, else 2048.

    (vllm/engine/arg_utils.py, get_batch_defaults)
    """
    if settings["max_num_batched_tokens"] is not None:
        return max(1, int(settings["max_num_batched_tokens"]))
    return 8192 if (settings.get("total_bytes") or LARGE_CARD_BYTES) >= LARGE_CARD_BYTES else 2048


def utilization(settings: Mapping[str, Any], version: Version) -> Fraction:
    """--gpu-memory-utilization: 0.9 by default, 0.92 from 0.33 on (vllm/config/cache.py)."""
    if settings["gpu_memory_utilization"] is not None:
        return Fraction(settings["gpu_memory_utilization"])
    return Fraction(92, 100) if version.number >= (0, 33, 0) else Fraction(9, 10)


def batches_in_flight(settings: Mapping[str, Any]) -> int:
    """max_concurrent_batches: the stages (one more under the V2 runner); else 2 under async."""
    stages = int(settings["pipeline_parallel_size"])
    asynchronous = not settings["no_async_scheduling"]
    if stages > 1:
        return stages + (1 if asynchronous and settings["v2_model_runner"] else 0)
    return 2 if asynchronous else 1


def serving_of(architecture: Architecture, settings: Mapping[str, Any]) -> Serving:
    """Read what the pool depends on."""
    version = version_of(settings["engine_version"])
    draft = speculation(architecture, settings)
    modules = sum(layer.draft for layer in draft.layers)
    packed = settings["kv_cache_layout"] != "LBNHC"
    if packed and not version.has_packed_layout:
        raise InvalidProblem.at("--kv-cache-layout", f"LBNHC with vLLM {version.text}", "BLHNC")
    return Serving(
        version=version,
        length_tokens=length_tokens(architecture, settings)[0],
        batch_tokens=batch_tokens(settings),
        batches_in_flight=batches_in_flight(settings),
        context_shards=max(1, int(settings["decode_context_parallel_size"])),
        packed=packed,
        unify_hybrid=bool(settings["disable_hybrid_kv_cache_manager"]),
        retained_tokens=max(0, draft.tokens - 1) if modules > 1 else 0,
        group_layers=int(settings["group_layers"]),
        compact_windows=bool(settings["compact_draft_pages"]),
    )


def state_mode(settings: Mapping[str, Any], version: Version) -> str:
    """--mamba-cache-mode; with prefix caching align, else none."""
    mode = settings["mamba_cache_mode"] or (
        "align" if settings["enable_prefix_caching"] else "none"
    )
    if mode == "all" and not version.has_state_mode_all:
        raise InvalidProblem.at("--mamba-cache-mode", f"none or align in {version.text}", "all")
    return str(mode)
