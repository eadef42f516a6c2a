"""Classes that ATOM serves (atom/model_engine/model_runner.py, support_model_arch_dict)."""

from __future__ import annotations

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.served import check_class

_CLASSES = """
CohereForCausalLM DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM
DeepseekV4ForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration Glm4MoeForCausalLM
GlmMoeDsaForCausalLM GptOssForCausalLM KimiK25ForConditionalGeneration
KimiK3ForConditionalGeneration LlamaForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM
MiniMaxM2ForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration
Mistral3ForConditionalGeneration MistralForCausalLM MixtralForCausalLM Qwen3ForCausalLM
Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM
Qwen3_5MoeForConditionalGeneration Step3p5ForCausalLM
"""
CLASSES = frozenset(_CLASSES.split())


def check_served(architecture: Architecture) -> None:
    """Refuse a class that no version of 2025 and 2026 has.

    Raises
    ------
    InvalidProblem : such a class.
    """
    check_class(architecture, "atom", CLASSES, "a class that ATOM serves")
