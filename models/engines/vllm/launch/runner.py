"""Which model runner vLLM starts, and how many batches it keeps in flight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture, Recurrent
from kvplan.models.engines.vllm.launch.defaults import Derived
from kvplan.models.engines.vllm.launch.speculation import Speculation
from kvplan.models.engines.vllm.launch.versions import Version

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
_V1_METHODS = {
    (0, 26, 0): ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "draft_model"),
    (0, 30, 0): ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class"),
    (0, 32, 0): ("suffix", "medusa", "mlp_speculator", "custom_class"),
    (0, 33, 0): ("suffix", "custom_class"),
}
"""Speculative methods that fall back to the V1 runner, from a version on (0.30 by 0.31's list)."""
_V1_ASYNC = ("ngram_gpu", "draft_model", "dspark", "dflash", "eagle", "eagle3")


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
