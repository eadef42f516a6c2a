"""What SGLang 0.5.23 makes of a launch line: its own rules, in its own order.

run_resolution_pipeline (arg_groups/pipeline.py): memory settings by card, the model's own
declarations, states, attention backend and page, speculation, pipeline stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.assumed import Derivation
from kvplan.models.engines.cards import Chip, chip_of
from kvplan.models.engines.layers import Architecture, Compressed, Latent
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.budget import estimates
from kvplan.models.engines.sglang.classes import NO_EXTRA_BUFFER, SPARSE_CLASSES, STATE_CLASSES
from kvplan.models.engines.sglang.host_experts import with_host_experts
from kvplan.models.engines.sglang.launch.backends import chip_text, derive_backend
from kvplan.models.engines.sglang.launch.context import context_tokens, derive_context
from kvplan.models.engines.sglang.launch.flags import FLAGS, chunk_tokens
from kvplan.models.engines.sglang.launch.speculation import derive_speculation
from kvplan.models.engines.sglang.reserve import vision_lines
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

SOURCE = "SGLang 0.5.23"
PAGE, REQUESTS, SPARSE_PAGE, NPU_PAGE = 256, 256, 64, 128


def resolve(architecture: Architecture, settings: Mapping[str, Any]) -> Settings:
    """Lay what the engine derives over the flags, once.

    Layers without a model_type, which no config described, keep their flags as they are: the
    engine's rules go by class.

    Raises
    ------
    InvalidProblem : flags that the engine refuses for the model.
    """
    given = settings if isinstance(settings, Settings) else Settings(FLAGS, settings)
    if given.assumed is not None:
        return given
    given = with_host_experts(architecture, given)
    found = Derivation(given, SOURCE)
    _derive_chunk(found)
    if architecture.model_type:
        derive_context(architecture, found)
        chip = chip_of(found.get("gpu"))
        _derive_sparse(architecture, found, chip)
        _derive_compressed(architecture, found)
        _derive_states(architecture, found)
        derive_backend(architecture, found, chip)
        _derive_share(architecture, found)
        derive_speculation(architecture, found)
        _derive_overlap(found)
    found.default("--page-size", 1, "", quiet=True)
    return given.resolved(found)


def assumptions(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each value that the engine derives, with the reason."""
    known = resolve(architecture, settings)
    vision = vision_lines(architecture, known)
    return (*map(str, known.assumed or ()), *vision, *(one.line for one in estimates(known)))


def _derive_chunk(found: Derivation) -> None:
    """--chunked-prefill-size by the card's total; -1 and 0 switch it off (memory_hook.py)."""
    tokens = chunk_tokens(found.values)
    known = found.get("total_bytes") is not None
    why = "by the card's total" if known else "cards of 60 to 160 GiB, as none is named"
    found.default("--chunked-prefill-size", tokens, why)
    found.set("--chunked-prefill-size", tokens, "", quiet=True)


def _derive_sparse(architecture: Architecture, found: Derivation, chip: Chip) -> None:
    """DeepSeek sparse attention: pages of 64, and rows by card.

    auto is fp8_e4m3 on Blackwell, else bfloat16 (_dsa_kv_cache_dtype_default); fp8 backends are
    trtllm on Blackwell (576 bytes a row), flashmla_kv elsewhere (656, with scales); GLM on the RTX
    cards flashinfer_sparse_mla (_dsa_split_backend_resolution).
    """
    latents = [layer for layer in architecture.target if isinstance(layer, Latent)]
    if architecture.name not in SPARSE_CLASSES or not any(one.index_dim for one in latents):
        return
    found.set("--page-size", SPARSE_PAGE, "DeepSeek sparse attention")
    word = found["kv_cache_dtype"]
    if word == "auto":
        word = "fp8_e4m3" if chip.is_blackwell else "bfloat16"
        found.set("--kv-cache-dtype", word, f"sparse attention on {chip_text(chip)}")
    if word not in ("bf16", "bfloat16", "fp8_e4m3"):
        expected = "auto, bfloat16 or fp8_e4m3 with DeepSeek sparse attention"
        raise InvalidProblem.at("--kv-cache-dtype", expected, shown(word))
    prefill, decode = _sparse_backends(architecture.name, str(word), chip)
    why = f"{word} on {chip_text(chip)}"
    found.default("--dsa-prefill-backend", prefill, why)
    found.default("--dsa-decode-backend", decode, why)


def _sparse_backends(name: str, word: str, chip: Chip) -> tuple[str, str]:
    if chip.is_amd:
        return "triton", "triton"
    if word != "fp8_e4m3":
        return "flashmla_sparse", "trtllm" if chip.is_blackwell else "fa3"
    if name == "GlmMoeDsaForCausalLM" and chip.capability >= 120:
        return ("flashinfer_sparse_mla",) * 2
    return ("trtllm" if chip.is_blackwell else "flashmla_kv",) * 2


def _derive_compressed(architecture: Architecture, found: Derivation) -> None:
    """DeepSeek-V4: pages of 256 (NPU 128), 256 requests, fp8 rows, a window share of 0.1.

    The share counts as given, so that the window is sized by it and not by the requests
    (model_overrides/deepseek_v4.py, deepseek_v4_hook.py).
    """
    if not any(isinstance(layer, Compressed) for layer in architecture.layers):
        return
    npu = found["device"] == "npu"
    found.default("--page-size", NPU_PAGE if npu else PAGE, "DeepSeek-V4")
    if found["kv_cache_dtype"] not in ("auto", "fp8_e4m3") and not npu:
        expected = "auto or fp8_e4m3 (DeepSeek-V4's rows in bfloat16 are not modelled)"
        raise InvalidProblem.at("--kv-cache-dtype", expected, shown(found["kv_cache_dtype"]))
    if found["max_running_requests"] is None:
        found.set("--max-running-requests", REQUESTS, "DeepSeek-V4")
        found.default("--swa-full-tokens-ratio", "0.1", "DeepSeek-V4")


def _derive_states(architecture: Architecture, found: Derivation) -> None:
    """--mamba-radix-cache-strategy auto (_mamba_radix_cache_resolution, handle_mamba_radix_cache).

    extra_buffer where the class can and batches overlap or pages hold several tokens; else
    no_buffer, which runs without overlap.
    """
    if architecture.name not in STATE_CLASSES or found["disable_radix_cache"]:
        return
    flag = "--mamba-radix-cache-strategy"
    word, able = found["mamba_radix_cache_strategy"], architecture.name not in NO_EXTRA_BUFFER
    if word == "auto":
        wanted = not found["disable_overlap_schedule"] or (found["page_size"] or 1) > 1
        if wanted and able:
            found.set(flag, "extra_buffer", _slots_text(found))
            return
        found.set(flag, "no_buffer", "3 slots a request")
        found.set("--disable-overlap-schedule", True, "no_buffer")
    elif word == "no_buffer":
        _refuse_without_buffer(found)
    elif not able:
        raise InvalidProblem.at(flag, f"no_buffer for {architecture.name}", shown(word))


def _slots_text(found: Derivation) -> str:
    lone = found["disable_overlap_schedule"] or int(found["pp_size"]) > 1
    return f"{4 if lone else 5} slots a request"


def _refuse_without_buffer(found: Derivation) -> None:
    """validate_mamba_no_buffer: no overlap, and pages of one token."""
    if not found["disable_overlap_schedule"]:
        expected = "--disable-overlap-schedule beside no_buffer"
        raise InvalidProblem.at("--mamba-radix-cache-strategy", expected, "no_buffer alone")
    if found["page_size"] not in (None, 1):
        raise InvalidProblem.at("--page-size", "1 with no_buffer", shown(found["page_size"]))


def _derive_share(architecture: Architecture, found: Derivation) -> None:
    """aiter with a context above 8192 takes 0.85 of the share (attention_hook.py)."""
    context = context_tokens(architecture, found.values)
    share = found["mem_fraction_static"]
    if found["attention_backend"] == "aiter" and context > 8192 and share is not None:
        found.set("--mem-fraction-static", share * 85 / 100, "aiter, context above 8192")


def _derive_overlap(found: Derivation) -> None:
    """Pipeline stages run without overlap (_pipeline_parallel_overlap_disable)."""
    if int(found["pp_size"]) > 1:
        found.set("--disable-overlap-schedule", True, "pipeline stages")
    lazy = found["mamba_radix_cache_strategy"] == "extra_buffer_lazy"
    if lazy and found["disable_overlap_schedule"]:
        expected = "extra_buffer without overlapped batches"
        raise InvalidProblem.at("--mamba-radix-cache-strategy", expected, "extra_buffer_lazy")
