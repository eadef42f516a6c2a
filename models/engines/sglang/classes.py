"""Classes that SGLang 0.5.23 treats apart (arg_groups/overrides.py and model_overrides/)."""

from __future__ import annotations

STATE_CLASSES = frozenset(
    {
        "KimiLinearForCausalLM",
        "KimiK3ForConditionalGeneration",
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "InternS2PreviewForConditionalGeneration",
        "NemotronHForCausalLM",
        "NemotronHPuzzleForCausalLM",
        "NemotronH_Omni_Reasoning_V3",
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "JetNemotronForCausalLM",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
    }
)
"""Classes whose states the radix cache keeps (_MAMBA_RADIX_CACHE_ARCHS)."""

NO_EXTRA_BUFFER = frozenset({"JetNemotronForCausalLM", "Lfm2ForCausalLM", "Lfm2MoeForCausalLM"})
"""Those of them without extra buffers (absent from _MAMBA_EXTRA_BUFFER_ARCHS)."""

SPARSE_CLASSES = frozenset(
    {
        "DeepseekV3ForCausalLM",
        "DeepseekV32ForCausalLM",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
        "GlmMoeDsaForCausalLM",
        "LongcatFlashForCausalLM",
    }
)
"""Classes that are DSA models where their config has index_topk (is_deepseek_dsa)."""

DEEPSEEK_CLASSES = SPARSE_CLASSES | {"KimiK25ForConditionalGeneration"}
"""The DeepSeek family (_deepseek_family_overrides)."""

QWEN_STATE_CLASSES = frozenset(
    {
        "Qwen3NextForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "InternS2PreviewForConditionalGeneration",
    }
)
NEMOTRON_CLASSES = frozenset(
    {"NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "NemotronH_Omni_Reasoning_V3"}
)
GEMMA4_CLASSES = frozenset(
    {
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
    }
)
SLIDING_TREE_CLASSES = frozenset({"Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"})
MIMO_CLASSES = frozenset({"MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM"})
LLAMA4_CLASSES = frozenset({"Llama4ForConditionalGeneration", "Llama4ForCausalLM"})
EXAONE_CLASSES = frozenset({"Exaone4ForCausalLM", "ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"})
LONG_TREES = frozenset({"LlamaForCausalLM", "Grok1ForCausalLM"})
"""Classes with draft trees of 5 steps, 4 branches, 8 tokens (_auto_choose_speculative_params)."""
