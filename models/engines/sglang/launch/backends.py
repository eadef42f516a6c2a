"""Attention backends and the pages that they force, by class and card (SGLang 0.5.23).

get_default_attn_backend and model_overrides/*.py choose; _mla_backend_page_constraints,
_fa4_page_constraint and _page_size_default follow (arg_groups/overrides.py).
"""

from __future__ import annotations

from kvplan.models.engines.assumed import Derivation
from kvplan.models.engines.cards import Chip
from kvplan.models.engines.layers import Architecture, Attention, Latent
from kvplan.models.engines.sglang.classes import (
    DEEPSEEK_CLASSES,
    EXAONE_CLASSES,
    GEMMA4_CLASSES,
    LLAMA4_CLASSES,
    MIMO_CLASSES,
    NEMOTRON_CLASSES,
    QWEN_STATE_CLASSES,
    SLIDING_TREE_CLASSES,
)

NATIVE_PAGES = {
    "flashmla": (64,),
    "trtllm_mla": (32, 64),
    "cutedsl_mla": (32, 64),
    "trtllm_mha": (16, 32, 64, 128),
    "hpc_ops": (64,),
}
"""Pages that a backend takes; another is changed to 64."""
SPLIT = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")


def derive_backend(architecture: Architecture, found: Derivation, chip: Chip) -> None:
    """Choose the attention backend where the line names none, and the page that it needs."""
    if all(found[key] is None for key in SPLIT):
        name = _of_class(architecture, found, chip) or default_backend(architecture, found, chip)
        found.set("--attention-backend", name, chip_text(chip), quiet=True)
        _forced_page(architecture, found, chip)
    _constrain_page(architecture, found, chip)
    found.default("--page-size", 1, "", quiet=True)


def chip_text(chip: Chip) -> str:
    """Why a rule of a card applied."""
    name = "ROCm" if chip.is_amd else f"sm{chip.capability}"
    return name if chip.known else f"{name}, as no --gpu is named"


def uses_latents(architecture: Architecture) -> bool:
    """Whether attention is MLA (use_mla_backend)."""
    return any(isinstance(layer, Latent) for layer in architecture.target)


def one_branch(found: Derivation) -> bool:
    """Whether nothing speculates with more than one branch (is_no_spec_infer_or_topk_one)."""
    return found["speculative_algorithm"] is None or (found["speculative_eagle_topk"] or 1) == 1


def default_backend(architecture: Architecture, found: Derivation, chip: Chip) -> str:
    """get_default_attn_backend: fa3 on Hopper, on sm100 trtllm_mha (MLA: flashinfer), ..."""
    if uses_latents(architecture):
        if chip.is_amd:
            return "aiter"
        return "fa3" if chip.is_hopper else "flashinfer" if chip.is_sm100 else "triton"
    if chip.is_hopper and one_branch(found):
        return "fa3"
    algorithm = found["speculative_algorithm"]
    told = algorithm in (None, "DFLASH") or found["speculative_eagle_topk"] is not None
    if chip.is_sm100 and one_branch(found) and told:
        return "fa4" if _is_asymmetric(architecture) else "trtllm_mha"
    return "aiter" if chip.is_amd else "flashinfer"


def _is_asymmetric(architecture: Architecture) -> bool:
    return any(
        layer.key_dim != layer.value_dim
        for layer in architecture.target
        if isinstance(layer, Attention)
    )


def _of_class(architecture: Architecture, found: Derivation, chip: Chip) -> str | None:
    """Backend that a class declares for itself; None leaves the general rule."""
    name = architecture.name
    if name in DEEPSEEK_CLASSES and uses_latents(architecture):
        if any(layer.index_dim for layer in architecture.target if isinstance(layer, Latent)):
            return "dsa"
        return "trtllm_mla" if chip.is_sm100 else None
    if name == "DeepseekV4ForCausalLM":
        return "dsv4"
    if name in QWEN_STATE_CLASSES and chip.is_sm100:
        plain = default_backend(architecture, found, chip) == "trtllm_mha"
        return "trtllm_mha" if plain and _pages_states(found) else "triton"
    if name in NEMOTRON_CLASSES and chip.is_sm100:
        return "trtllm_mha" if one_branch(found) else "triton"
    if name == "GptOssForCausalLM" or name in LLAMA4_CLASSES or name in EXAONE_CLASSES:
        return _interleaved_backend(chip)
    if name in GEMMA4_CLASSES:
        return "trtllm_mha" if chip.is_sm100 else "triton"
    if name in MIMO_CLASSES and chip.is_sm100:
        return "fa4"
    if name in SLIDING_TREE_CLASSES and (chip.is_blackwell or chip.is_hopper):
        return "fa4" if chip.is_blackwell else "fa3"
    return _small_hybrid_backend(name) if chip.is_sm100 else None


def _interleaved_backend(chip: Chip) -> str:
    """gpt-oss, Llama-4 and EXAONE: trtllm_mha, fa3, aiter, or triton elsewhere."""
    if chip.is_sm100:
        return "trtllm_mha"
    return "fa3" if chip.is_hopper else "aiter" if chip.is_amd else "triton"


def _small_hybrid_backend(name: str) -> str | None:
    """Falcon-H1, Granite-4 and LFM-2 on sm100: a backend with pages of one token."""
    backends = {"FalconH1ForCausalLM": "triton", "GraniteMoeHybridForCausalLM": "flashinfer"}
    backends |= dict.fromkeys(("Lfm2ForCausalLM", "Lfm2MoeForCausalLM"), "flashinfer")
    return backends.get(name)


def _pages_states(found: Derivation) -> bool:
    """Whether states allow pages of several tokens: extra buffers, no radix cache, or drafts."""
    extra = str(found["mamba_radix_cache_strategy"]).startswith("extra_buffer")
    return bool(extra or found["disable_radix_cache"] or found["speculative_algorithm"])


def _forced_page(architecture: Architecture, found: Derivation, chip: Chip) -> None:
    """Lay the page of a class that declares one beside its backend (Qwen3.5, Nemotron-H)."""
    backend = found["attention_backend"]
    why = f"{backend} on {chip_text(chip)}"
    if architecture.name in QWEN_STATE_CLASSES and chip.is_sm100:
        page = 64 if backend == "trtllm_mha" else 1
        found.set("--page-size", page, why, quiet=page == 1)
    if architecture.name in NEMOTRON_CLASSES and backend == "trtllm_mha":
        found.default("--page-size", 64, why)


def _constrain_page(architecture: Architecture, found: Derivation, chip: Chip) -> None:
    """Change a page that the backend does not take; fa4 on sm100 takes 128 alone."""
    backends = [found[key] for key in SPLIT if found[key] is not None]
    for backend in backends:
        pages = NATIVE_PAGES.get(backend, ())
        if pages and found["page_size"] not in pages:
            found.set("--page-size", 64, f"{backend} on {chip_text(chip)}")
    narrow = (found["speculative_eagle_topk"] or 0) <= 1
    if "fa4" in backends and chip.is_sm100 and narrow and not uses_latents(architecture):
        found.set("--page-size", 128, f"fa4 on {chip_text(chip)}")
