"""Classes that TensorRT-LLM serves (_torch/models/_arch_index.py, docs/source/models)."""

from __future__ import annotations

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.served import check_class

_PYTORCH = """
AfmoeForCausalLM Cohere2ForCausalLM DeciLMForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM
DeepseekV4ForCausalLM Exaone4ForCausalLM Exaone4_5_ForConditionalGeneration ExaoneMoEForCausalLM
ExaoneMoeForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForCausalLM
Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration Glm4MoeForCausalLM
GlmMoeDsaForCausalLM GptOssForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM
KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration KimiLinearForCausalLM
LagunaForCausalLM Llama4ForConditionalGeneration LlamaForCausalLM MiniMaxM2ForCausalLM
MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration
Mistral3ForConditionalGeneration MistralForCausalLM MistralLarge3ForCausalLM MixtralForCausalLM
NemotronForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM NemotronH_Nano_VL_V2
NemotronNASForCausalLM Phi3ForCausalLM Phi4MMForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM
Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM
Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3VLForConditionalGeneration
Qwen3VLMoeForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration
Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration SeedOssForCausalLM Starcoder2ForCausalLM
Step3p5ForCausalLM Step3p7ForConditionalGeneration
"""
PYTORCH = frozenset(_PYTORCH.split())
_AUTO_DEPLOY = """
DeepseekV2ForCausalLM ExaoneForCausalLM Gemma3nForConditionalGeneration Glm4MoeLiteForCausalLM
GraniteForCausalLM GraniteMoeHybridForCausalLM InternLM3ForCausalLM Olmo3ForCausalLM
SmolLM3ForCausalLM
"""
AUTO_DEPLOY = frozenset(_AUTO_DEPLOY.split())
"""Classes that its AutoDeploy backend adds."""


def check_served(architecture: Architecture) -> None:
    """Refuse a class that no backend serves.

    Raises
    ------
    InvalidProblem : such a class.
    """
    expected = "a class that TensorRT-LLM serves (its PyTorch or AutoDeploy backend)"
    check_class(architecture, "tensorrt-llm", PYTORCH | AUTO_DEPLOY, expected)
