"""What vLLM derives when a launch does not say it: a rule each, with its versions and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture, Recurrent
from kvplan.models.engines.vllm.speculation import Speculation
from kvplan.models.engines.vllm.versions import Version
from kvplan.models.errors import InvalidProblem

GIB = 2**30
HUGE_CARD_BYTES, LARGE_CARD_BYTES = 160 * GIB, 70 * GIB
_V2_BY_NAME = frozenset(
    {
        *("DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM"),
        *("InklingForConditionalGeneration", "LongcatFlashNgramForCausalLM"),
        *("KimiK3ForConditionalGeneration", "Qwen2MoeForCausalLM"),
    }
)
_MIXTURES = frozenset(
    {
        *("mixtral", "gpt_oss", "llama4_text", "deepseek_v2", "deepseek_v3", "deepseek_v32"),
        *("deepseek_v4", "kimi_k2", "minimax_m2", "dbrx", "dots1", "glm_moe_dsa", "olmoe"),
    }
)
_MODE_ALL = frozenset(
    {
        *("nemotron_h", "granitemoehybrid", "falcon_h1", "jamba", "zamba2", "mamba", "mamba2"),
        *("bamba", "falcon_mamba"),
    }
)
_V1_METHODS = {
    (0, 26, 0): ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "draft_model"),
    (0, 30, 0): ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class"),
    (0, 32, 0): ("suffix", "medusa", "mlp_speculator", "custom_class"),
    (0, 33, 0): ("suffix", "custom_class"),
}
"""Speculative methods that fall back to the V1 runner, from a version on (0.30 by 0.31's list)."""
_V1_ASYNC = ("ngram_gpu", "draft_model", "dspark", "dflash", "eagle", "eagle3")


@dataclass(frozen=True)
class Derived:
    """A value that a flag would set, and why it is what it is.

    Attributes
    ----------
    given : whether the flag itself said so.
    """

    flag: str
    value: Any
    reason: str
    given: bool = False

    @property
    def line(self) -> str:
        """As the output lists it."""
        return f"{self.flag}: {self.value} ({self.reason})"


def utilization(settings: Mapping[str, Any], version: Version) -> Derived:
    """--gpu-memory-utilization: 0.9, from 0.20 on 0.92 (vllm/config/cache.py)."""
    flag, given = "--gpu-memory-utilization", settings["gpu_memory_utilization"]
    if given is not None:
        return Derived(flag, Fraction(given), "given", given=True)
    share = Fraction(92, 100) if version.number >= (0, 20, 0) else Fraction(9, 10)
    return Derived(flag, share, f"default of {version.text}")


def _card(settings: Mapping[str, Any], version: Version) -> tuple[int, int, str]:
    """Step tokens and requests of a server by card (EngineArgs.get_batch_defaults).

    160 GiB and more, from 0.28 on: 16,384 and 1,024; 70 GiB and more, no A100: 8,192 and 1,024;
    others: 2,048 and 256. Without a card the second is assumed.
    """
    total = settings.get("total_bytes")
    name = str(settings.get("gpu") or "").lower()
    if total is None:
        return 8192, 1024, "no --gpu: a card of 70 GiB and more, no A100"
    if total >= HUGE_CARD_BYTES and version.number >= (0, 28, 0):
        return 16384, 1024, "a card of 160 GiB and more, from 0.28"
    if total >= LARGE_CARD_BYTES and "a100" not in name:
        return 8192, 1024, "a card of 70 GiB and more"
    small = "an A100" if total >= LARGE_CARD_BYTES else "a card below 70 GiB"
    return 2048, 256, small


def _factor(settings: Mapping[str, Any]) -> int:
    """--performance-mode throughput doubles what a launch does not say."""
    return 2 if settings["performance_mode"] == "throughput" else 1


def step_tokens(
    settings: Mapping[str, Any], version: Version, length_tokens: int | None = None
) -> Derived:
    """--max-num-batched-tokens: by card, at most max_num_seqs x max_model_len.

    Without chunked prefill at least one whole request (vllm/engine/arg_utils.py).
    """
    flag, given = "--max-num-batched-tokens", settings["max_num_batched_tokens"]
    if given is not None:
        return Derived(flag, max(1, int(given)), "given", given=True)
    tokens, sequences, reason = _card(settings, version)
    tokens, sequences = tokens * _factor(settings), sequences * _factor(settings)
    if length_tokens is not None:
        if settings["enable_chunked_prefill"] is False:
            tokens = max(tokens, length_tokens)
        tokens = min(tokens, int(settings["max_num_seqs"] or sequences) * length_tokens)
    return Derived(flag, max(1, tokens), reason)


def sequences(settings: Mapping[str, Any], version: Version) -> Derived:
    """--max-num-seqs: by card, at most --max-num-batched-tokens (vllm/engine/arg_utils.py)."""
    flag, given = "--max-num-seqs", settings["max_num_seqs"]
    if given is not None:
        return Derived(flag, int(given), "given", given=True)
    _, most, reason = _card(settings, version)
    most *= _factor(settings)
    step = settings["max_num_batched_tokens"]
    if step is not None and int(step) < most:
        return Derived(flag, max(1, int(step)), "at most --max-num-batched-tokens")
    return Derived(flag, most, reason)


def v2_runner(
    settings: Mapping[str, Any], version: Version, architecture: Architecture, draft: Speculation
) -> Derived:
    """VLLM_USE_V2_MODEL_RUNNER: on by default from 0.29 (VllmConfig.use_v2_model_runner).

    0.26 to 0.28: for models of attention layers that are dense or listed by name. In each, what
    the V2 runner does not take falls back to V1.
    """
    flag, given = "VLLM_USE_V2_MODEL_RUNNER", settings["v2_model_runner"]
    if given is not None:
        return Derived(flag, bool(given), "given", given=True)
    if reason := _v1_reason(settings, version, draft):
        return Derived(flag, False, reason)
    if version.number >= (0, 29, 0):
        return Derived(flag, True, "default from 0.29")
    if version.number < (0, 26, 0):
        return Derived(flag, False, "default before 0.26")
    states = any(isinstance(layer, Recurrent) for layer in architecture.target)
    by_name = architecture.name in _V2_BY_NAME
    plain = not states and (by_name or not _is_mixture(architecture))
    return Derived(flag, plain, "0.26 to 0.28: dense models and some by name, without states")


def _is_mixture(architecture: Architecture) -> bool:
    """Whether the model mixes experts, by its config or by its kind."""
    kind = architecture.model_type
    return architecture.experts > 0 or "moe" in kind or kind in _MIXTURES


def _v1_reason(settings: Mapping[str, Any], version: Version, draft: Speculation) -> str | None:
    """What makes vLLM fall back to its V1 runner."""
    methods = [list_ for since, list_ in _V1_METHODS.items() if version.number >= since]
    if methods and draft.method in methods[-1]:
        return f"V1: speculative method {draft.method}"
    if draft.parallel and draft.method not in ("dflash", "dspark"):
        return "V1: parallel drafting"
    if draft.mixed_vocabulary and version.number >= (0, 32, 0):
        return "V1: a draft of another vocabulary"
    stages = int(settings["pipeline_parallel_size"])
    if draft.method == "eagle3" and stages > 1 and version.number < (0, 30, 0):
        return "V1: EAGLE-3 with pipeline stages"
    return None


def async_scheduling(settings: Mapping[str, Any], draft: Speculation, *, v2: bool) -> Derived:
    """--async-scheduling: on, but under the V1 runner with stages or some drafts.

    (VllmConfig._set_async_scheduling; EAGLE, MTP and draft models are taken.)
    """
    flag, given = "--async-scheduling", settings["async_scheduling"]
    if given is not None:
        return Derived(flag, bool(given), "given", given=True)
    if v2:
        return Derived(flag, True, "default")
    if draft.method and not draft.is_mtp and draft.method not in _V1_ASYNC:
        return Derived(flag, False, f"V1 runner with speculative method {draft.method}")
    if draft.unpadded:
        return Derived(flag, False, "V1 runner with disable_padded_drafter_batch")
    return Derived(flag, True, "default")


def batches_in_flight(
    settings: Mapping[str, Any], version: Version, architecture: Architecture, draft: Speculation
) -> Derived:
    """max_concurrent_batches: stages; one more under async scheduling and the V2 runner.

    Under V1 async scheduling gives 2 batches on one stage (vllm/config/vllm.py).
    """
    stages = max(1, int(settings["pipeline_parallel_size"]))
    v2 = v2_runner(settings, version, architecture, draft)
    overlapped = async_scheduling(settings, draft, v2=v2.value)
    flag, runner = "batches in flight", "V2" if v2.value else "V1"
    added = overlapped.value and (v2.value or stages == 1)
    reason = f"{runner} runner, async scheduling {'on' if overlapped.value else 'off'}"
    return Derived(flag, stages + 1 if added else stages, reason)


def prefix_caching(
    settings: Mapping[str, Any], version: Version, architecture: Architecture
) -> Derived:
    """--enable-prefix-caching: off for states without attention, for others on.

    Hybrids: off before 0.26 (ModelConfig.is_prefix_caching_supported). A --mamba-cache-mode other
    than none asks for it.
    """
    flag, given = "--enable-prefix-caching", settings["enable_prefix_caching"]
    if given is not None:
        return Derived(flag, bool(given), "given", given=True)
    if settings["mamba_cache_mode"] in ("align", "all"):
        return Derived(flag, True, "asked for by --mamba-cache-mode")
    states = [isinstance(layer, Recurrent) for layer in architecture.target]
    if all(states):
        return Derived(flag, False, "default without attention layers")
    if any(states):
        on = version.number >= (0, 26, 0)
        return Derived(flag, on, f"hybrids: {'on from' if on else 'off before'} 0.26")
    return Derived(flag, True, "default")


def state_mode(
    settings: Mapping[str, Any], version: Version, architecture: Architecture, draft: Speculation
) -> Derived:
    """--mamba-cache-mode: none without prefix caching; else align from 0.28 on.

    Up to 0.27 all, where the model's class supports it (MambaModelConfig; Bamba to 0.23; in 0.20
    not with a draft).

    Raises
    ------
    InvalidProblem : a mode that this version has no more.
    """
    flag, given = "--mamba-cache-mode", settings["mamba_cache_mode"]
    if given == "all" and not version.has_state_mode_all:
        raise InvalidProblem.at(flag, f"none or align in {version.text}", "all")
    if not prefix_caching(settings, version, architecture).value:
        return Derived(flag, "none", "no prefix caching")
    if given in ("align", "all"):
        return Derived(flag, str(given), "given", given=True)
    if version.number >= (0, 28, 0):
        return Derived(flag, "align", "prefix caching from 0.28")
    if architecture.model_type not in _MODE_ALL or (
        architecture.model_type == "bamba" and version.number >= (0, 24, 0)
    ):
        return Derived(flag, "align", "prefix caching, a class without mode all")
    if draft.method and (0, 20, 0) <= version.number < (0, 21, 0):
        return Derived(flag, "align", "prefix caching and speculation in 0.20")
    return Derived(flag, "all", "prefix caching up to 0.27, a class with mode all")


def state_dtype(
    settings: Mapping[str, Any], version: Version, architecture: Architecture, layer: Recurrent
) -> Derived:
    """--mamba-ssm-cache-dtype: the config's, else that of the convolution.

    Nemotron-H without one: float32, in 0.19 float16 (NemotronHForCausalLMConfig). Linear attention
    looks at --mamba-cache-dtype alone (linear_attention_state_dtype).
    """
    flag, given = "--mamba-ssm-cache-dtype", settings["mamba_ssm_cache_dtype"]
    if layer.recurrence == "linear":
        return Derived(flag, None, "linear attention: that of --mamba-cache-dtype")
    if given != "auto":
        return Derived(flag, str(given), "given", given=True)
    if layer.state_dtype:
        return Derived(flag, layer.state_dtype, "the config's")
    if architecture.model_type == "nemotron_h":
        old = version.number < (0, 20, 0)
        return Derived(flag, "float16" if old else "float32", f"Nemotron-H in {version.text}")
    return Derived(flag, None, "that of --mamba-cache-dtype")


def draft_kv_dtype(target: str, draft: Speculation, *, patched: bool = False) -> Derived:
    """KV dtype of a draft: --kv-cache-dtype, unless the JSON's kv_cache_dtype says another.

    patched : 1Cat-vLLM keeps a separate draft in the dtype of its weights.
    """
    flag = "draft's KV dtype"
    if draft.kv_dtype is not None:
        return Derived(flag, draft.kv_dtype, "given", given=True)
    if patched and draft.dtype:
        return Derived(flag, draft.dtype, "patched build: that of its weights")
    return Derived(flag, target, "--kv-cache-dtype holds for the draft")


BACKEND_BLOCKS = {
    "FLASHMLA": 64,
    "CUTLASS_MLA": 128,
    "FLASHINFER_MLA": 32,
    "TOKENSPEED_MLA": 32,
    "FLASHMLA_SPARSE": 64,
    "FLASHINFER_MLA_SPARSE": 64,
}
"""Least tokens of a block that a kernel takes, where 16 are too few."""
_HOPPER, _BLACKWELL = ("h100", "h200", "h20", "h800"), ("b200", "b300", "gb200", "gb300")


def kernel_block(settings: Mapping[str, Any], *, latent: bool, sparse: bool) -> Derived:
    """Tokens of a block: 16, or the least that the attention backend takes.

    MLA: FlashInfer's on Blackwell takes 32; on Hopper FlashAttention's takes 16, and FlashMLA's for
    fp8 64; a sparse indexer 64 (vllm/platforms/cuda.py, _get_backend_priorities).
    """
    flag, backend = "--attention-backend", settings["attention_backend"]
    if backend is not None:
        return Derived(flag, BACKEND_BLOCKS.get(backend.upper(), 16), "given", given=True)
    name = str(settings.get("gpu") or "").lower()
    if sparse:
        return Derived(flag, 64, "sparse MLA: blocks of 64 tokens")
    if latent and name.startswith(_BLACKWELL):
        return Derived(flag, 32, "FLASHINFER_MLA on Blackwell: blocks of 32 tokens")
    if latent and name.startswith(_HOPPER) and settings["kv_cache_dtype"].startswith("fp8"):
        return Derived(flag, 64, "FLASHMLA on Hopper with an fp8 cache: blocks of 64 tokens")
    if latent and not name:
        return Derived(flag, 16, "no --gpu: a kernel that takes blocks of 16 tokens")
    return Derived(flag, 16, "blocks of 16 tokens")


def kv_dtype(settings: Mapping[str, Any], architecture: Architecture) -> Derived:
    """--kv-cache-dtype auto: what the checkpoint's quantization says, else the weights' dtype.

    (vllm/utils/torch_utils.py, resolve_kv_cache_dtype_string.)
    """
    flag, given = "--kv-cache-dtype", str(settings["kv_cache_dtype"])
    if given != "auto":
        return Derived(flag, given, "given", given=True)
    if architecture.kv_dtype:
        return Derived(flag, architecture.kv_dtype, "the checkpoint's quantization_config")
    return Derived(flag, "auto", "that of the weights")
