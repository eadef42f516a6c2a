"""llama.cpp's own list of architectures, and which of them slide (conversion/*.py, src/models/*).

From llama.cpp as llama-cpp-python 0.3.36 has it. A class that its converter does not register has
no sizes there. Encoders and drafts, which have no cache of their own, are left out; so are a few
architectures whose caches have not been compared with the library's, minimax-01 among them.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.models.engines.layers import Architecture, Attention, Latent, Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

_CLASSES = {
    "afmoe": "AfmoeForCausalLM",
    "apertus": "ApertusForCausalLM",
    "arcee": "ArceeForCausalLM",
    "baichuan": "BaichuanForCausalLM BaiChuanForCausalLM",
    "bailingmoe": "BailingMoeForCausalLM",
    "bailingmoe2": "BailingMoeV2ForCausalLM SarvamMoEForCausalLM",
    "bailingmoe3": "BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration",
    "bitnet": "BitNetForCausalLM BitnetForCausalLM",
    "bloom": "BloomForCausalLM",
    "chatglm": "GlmForCausalLM ChatGLMModel ChatGLMForConditionalGeneration",
    "cohere2": "Cohere2ForCausalLM",
    "cohere2moe": "Cohere2MoeForCausalLM",
    "command-r": "CohereForCausalLM",
    "dbrx": "DbrxForCausalLM",
    "deci": "DeciLMForCausalLM",
    "deepseek": "DeepseekForCausalLM",
    "deepseek2": (
        "DeepseekV2ForCausalLM DeepseekV3ForCausalLM KimiVLForConditionalGeneration "
        "KimiK25ForConditionalGeneration YoutuForCausalLM YoutuVLForConditionalGeneration "
        "Glm4MoeLiteForCausalLM"
    ),
    "deepseek32": "DeepseekV32ForCausalLM",
    "deepseek4": "DeepseekV4ForCausalLM",
    "dots1": "Dots1ForCausalLM",
    "ernie4_5": "Ernie4_5_ForCausalLM Ernie4_5ForCausalLM",
    "ernie4_5-moe": "Ernie4_5_MoeForCausalLM",
    "exaone": "ExaoneForCausalLM",
    "exaone-moe": "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
    "exaone4": "Exaone4ForCausalLM Exaone4_5_ForConditionalGeneration",
    "falcon": "FalconForCausalLM RWForCausalLM",
    "falcon-h1": "FalconH1ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
    "gemma3n": "Gemma3nForCausalLM Gemma3nForConditionalGeneration",
    "gemma4": (
        "Gemma4ForConditionalGeneration Gemma4ForCausalLM Gemma4UnifiedForConditionalGeneration"
    ),
    "glm-dsa": "GlmMoeDsaForCausalLM",
    "glm4": "Glm4ForCausalLM Glm4vForConditionalGeneration GlmOcrForConditionalGeneration",
    "glm4moe": "Glm4MoeForCausalLM Glm4vMoeForConditionalGeneration SolarOpenForCausalLM",
    "gpt-oss": "GptOssForCausalLM",
    "gpt2": "GPT2LMHeadModel RuGPT3XLForCausalLM",
    "gptneox": "GPTNeoXForCausalLM",
    "granite": "GraniteForCausalLM",
    "granite_swa": "GraniteSWAForCausalLM GraniteMoeSWAForCausalLM",
    "granitehybrid": "GraniteMoeHybridForCausalLM BambaForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
    "hrm_text": "HrmTextForCausalLM",
    "hunyuan-dense": "HunYuanDenseV1ForCausalLM",
    "hunyuan-moe": "HunYuanMoEV1ForCausalLM",
    "hunyuan_vl": "HunYuanVLForConditionalGeneration",
    "hy_v3": "HYV3ForCausalLM",
    "hy_v4": "HYV4ForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "jais2": "Jais2ForCausalLM",
    "jamba": "JambaForCausalLM",
    "kimi-k3": "KimiK3ForConditionalGeneration",
    "kimi-linear": "KimiLinearForCausalLM",
    "laguna": "LagunaForCausalLM",
    "lfm2": "Lfm2ForCausalLM LFM2ForCausalLM Lfm2VlForConditionalGeneration",
    "lfm2moe": "Lfm2MoeForCausalLM",
    "llama": (
        "LlamaForCausalLM MistralForCausalLM MixtralForCausalLM LlavaForConditionalGeneration "
        "VoxtralForConditionalGeneration IQuestCoderForCausalLM InternLM3ForCausalLM"
    ),
    "llama4": "Llama4ForConditionalGeneration Llama4ForCausalLM",
    "mamba": "MambaForCausalLM FalconMambaForCausalLM",
    "mamba2": "Mamba2ForCausalLM",
    "mellum": "MellumForCausalLM",
    "mimo2": "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
    "minicpm": "MiniCPMForCausalLM",
    "minimax-m2": "MiniMaxM2ForCausalLM",
    "minimax-m3": "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
    "mistral4": "Mistral4ForCausalLM",
    "mistral3": "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
    "mpt": "MPTForCausalLM",
    "muse-glimmer": "MuseGlimmerForConditionalGeneration",
    "nemotron": "NemotronForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "nemotron_h_moe": "NemotronHPuzzleForCausalLM",
    "olmo": "OlmoForCausalLM",
    "olmo2": "Olmo2ForCausalLM Olmo3ForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "orion": "OrionForCausalLM",
    "paddleocr": "PaddleOCRVLForConditionalGeneration",
    "pangu-embedded": "PanguEmbeddedForCausalLM",
    "phi2": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "phimoe": "PhiMoEForCausalLM",
    "plamo3": "Plamo3ForCausalLM PLaMo3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM KORMoForCausalLM",
    "qwen2moe": "Qwen2MoeForCausalLM",
    "qwen2vl": "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
    "qwen3": "Qwen3ForCausalLM",
    "qwen35": (
        "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM MiniCPMV4_6ForConditionalGeneration"
    ),
    "qwen35moe": "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
    "qwen3next": "Qwen3NextForCausalLM",
    "qwen3vl": "Qwen3VLForConditionalGeneration Qwen3ASRForConditionalGeneration",
    "qwen3vlmoe": "Qwen3VLMoeForConditionalGeneration Qwen3OmniMoeForConditionalGeneration",
    "seed_oss": "SeedOssForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "stablelm": "StableLmForCausalLM StableLMEpochForCausalLM",
    "starcoder": "GPTBigCodeForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "step35": "Step3p5ForCausalLM Step3p7ForConditionalGeneration",
    "xverse": "XverseForCausalLM",
}
ARCHITECTURES = tuple(_CLASSES)
BY_CLASS = {name: known for known, names in _CLASSES.items() for name in names.split()}
"""Architecture of a Hugging Face class."""

BY_TYPE = {
    **dict.fromkeys(("llama", "mistral", "mixtral", "internlm3"), "llama"),
    **dict.fromkeys(("mistral3", "ministral", "ministral3"), "mistral3"),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), "qwen2vl"),
    **dict.fromkeys(("granitemoehybrid", "bamba"), "granitehybrid"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"), "deepseek2"),
    **dict.fromkeys(("olmo2", "olmo3"), "olmo2"),
    **dict.fromkeys(("nemotron-nas", "deci"), "deci"),
    **dict.fromkeys(("glm", "chatglm"), "chatglm"),
    **dict.fromkeys(("gemma4", "gemma4_unified"), "gemma4"),
    **dict.fromkeys(("mamba", "falcon_mamba"), "mamba"),
    **dict.fromkeys(("mimo_v2_flash", "mimo_v2"), "mimo2"),
    **dict.fromkeys(("step3p5", "step3p7"), "step35"),
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_5": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_vl": "qwen3vl",
    "qwen3_vl_moe": "qwen3vlmoe",
    "gpt_oss": "gpt-oss",
    "gpt_neox": "gptneox",
    "gpt_bigcode": "starcoder",
    "phi": "phi2",
    "cohere": "command-r",
    "glm4_moe": "glm4moe",
    "glm_moe_dsa": "glm-dsa",
    "deepseek_v32": "deepseek32",
    "deepseek_v4": "deepseek4",
    "minimax_m2": "minimax-m2",
    "minimax_m3": "minimax-m3",
    "kimi_linear": "kimi-linear",
    "falcon_h1": "falcon-h1",
    "lfm2_moe": "lfm2moe",
    "ernie4_5_moe": "ernie4_5-moe",
    "exaone_moe": "exaone-moe",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "mistral4": "mistral4",
}
"""Architecture of a model_type, where the class is none of the list (a config without one)."""

WINDOWED = frozenset(
    {
        *("gemma2", "gemma3", "gemma3n", "gemma4", "cohere2", "cohere2moe", "gpt-oss", "llama4"),
        *("exaone4", "exaone-moe", "olmo2", "laguna", "afmoe", "mimo2", "step35", "granite_swa"),
        *("mellum", "muse-glimmer", "plamo3"),
    }
)
"""Architectures with a window cache: those whose loader sets swa_type."""
EXAONE_WINDOWED_LAYERS = 64  # exaone4 slides in its 32B alone, told by its layers
LLAMA4_CHUNK = 8192  # whatever the config says
SPARSE = frozenset({"glm-dsa", "deepseek32", "hy_v4"})
"""Architectures with a cache of indexer keys beside the latent one (llama_kv_cache_dsa)."""
ROLLBACK = frozenset(
    {
        *("qwen35", "qwen35moe", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe"),
        *("kimi-k3", "deepseek4"),
    }
)
"""Architectures whose states can be rolled back, so that drafts cost rows."""


def known_as(architecture: Architecture) -> str:
    """Name of the architecture in llama.cpp (general.architecture of a GGUF file).

    Raises
    ------
    InvalidProblem : the engine, or this adapter, does not know it.
    """
    kind = architecture.model_type.removesuffix("_text")
    found = BY_CLASS.get(architecture.name) or BY_TYPE.get(kind)
    if kind == "mistral4":  # one class with mistral3
        found = kind
    for name in (kind, architecture.model_type, architecture.name):
        found = found or (name if name in _CLASSES else None)
    if found is None:
        expected = "a class on llama.cpp's own list of architectures (0.3.36; others have no sizes)"
        raise InvalidProblem.at("--engine llama.cpp", expected, shown(architecture.name))
    return found


def seen_layers(architecture: Architecture) -> tuple[Layer, ...]:
    """Target layers as llama.cpp keeps them: windows and indexer keys by its own lists.

    Layers under a name of their own, which no config described, keep their windows.
    """
    kind = known_as(architecture)
    if not any(architecture.name in names for names in (BY_CLASS, BY_TYPE, _CLASSES)):
        return architecture.target
    slides = kind in WINDOWED
    if kind == "exaone4":
        slides = architecture.total_layers == EXAONE_WINDOWED_LAYERS
    return tuple(_seen(layer, kind, slides=slides) for layer in architecture.target)


def _seen(layer: Layer, kind: str, *, slides: bool) -> Layer:
    if isinstance(layer, Attention) and layer.reach != "full":
        if not slides:
            return replace(layer, reach="full", window=None, chunk=None)
        if kind == "llama4":
            return replace(layer, reach="chunked", window=None, chunk=LLAMA4_CHUNK)
    if isinstance(layer, Latent) and kind not in SPARSE:
        return replace(layer, index_dim=0)
    return layer
