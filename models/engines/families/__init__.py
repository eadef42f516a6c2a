"""Families of models, by the model_type of their configs."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.models.engines.families import (
    attention,
    encdec,
    hybrid,
    indexed,
    latent,
    mamba,
    queries,
    slides,
)
from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.families.popular import POPULAR
from kvplan.models.engines.layers import Layer

Reader = Callable[[Fields], list[Layer]]

_PLAIN = (
    *("llama", "mistral", "mixtral", "mistral3", "ministral", "gemma", "gpt2", "gpt_neox"),
    *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text"),
    *("qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "phi", "phi3", "phimoe"),
    *("granite", "granitemoe", "olmo", "olmo2", "olmoe", "starcoder2", "stablelm"),
    *("internlm2", "internlm3", "cohere", "glm", "glm4", "seed_oss"),
    *("smollm3", "ernie4_5", "dots1", "ministral3", "apertus", "arcee", "nemotron", "opt", "gptj"),
    *("bloom", "exaone", "baichuan", "bitnet", "xverse", "minicpm", "qwen3_omni_moe_text"),
    *("qwen2_5_omni_text", "orion", "bailing_moe", "helium", "codegen", "glm4v_text"),
    *("glm4v_moe_text", "persimmon", "granitemoeshared", "flex_olmo", "phi4_multimodal", "jais2"),
    *("deepseek", "aria_text", "hyperclovax", "nanochat", "paddleocr_vl_text", "glm_ocr_text"),
    *("cosmos3_edge_text", "hunyuan_vl_text", "emu3_text_model", "ernie4_5_vl_moe_text"),
    *("solar_open", "hrm_text", "mimo", "biogpt", "mellum", "doge"),
)
_LISTED = (
    *("gpt_oss", "cwm", "granite_swa", "granitemoe_swa", "vaultgemma", "muse_glimmer_text"),
    "cohere_compass_text",
)
READERS: dict[str, Reader] = {
    **dict.fromkeys(_PLAIN, attention.plain),
    **POPULAR,
    "ernie4_5_moe": attention.glm4,
    "minimax_m2": attention.minimax_m2,
    "glm4_moe": attention.glm4,
    "hy_v3": attention.glm4,
    "minicpm3": attention.minicpm3,
    **dict.fromkeys(("minimax_m3_vl_text", "minimax_m3_text"), indexed.minimax_m3),
    "gemma2": attention.gemma2,
    "gemma3": attention.patterned,
    "gemma3_text": attention.patterned,
    "gemma3n_text": attention.patterned,
    "cohere2": attention.patterned,
    "exaone4": attention.patterned,
    "gemma4_text": attention.gemma4,
    "gemma4_unified_text": attention.gemma4,
    "cohere2_moe": attention.patterned,
    **dict.fromkeys(_LISTED, attention.interleaved),
    "gpt_bigcode": queries.multi_query,
    "falcon": queries.falcon,
    "dbrx": queries.nested,
    "mpt": queries.nested,
    "jetmoe": queries.jetmoe,
    "chatglm": queries.chatglm,
    "mimo_v2_flash": slides.mimo_v2,
    "mimo_v2": slides.mimo_v2,
    "step3p5": slides.step3p5,
    "step3p7": slides.step3p5,
    "llama4_text": attention.llama4,
    "nemotron-nas": attention.deci,
    "deci": attention.deci,
    "deepseek_v2": latent.mla,
    "deepseek_v3": latent.mla,
    "kimi_k2": latent.mla,
    "glm4_moe_lite": latent.mla,
    "mistral4": latent.mla,
    "axk1": latent.mla,
    "youtu": latent.mla,
    "longcat_flash": latent.longcat,
    "deepseek_v32": latent.indexed_mla,
    "glm_moe_dsa": latent.indexed_mla,
    "deepseek_v4": latent.deepseek_v4,
    "mamba": mamba.pure_mamba1,
    "falcon_mamba": mamba.pure_mamba1,
    "mamba2": mamba.pure_mamba2,
    "zamba2": mamba.zamba2,
    "nemotron_h": hybrid.nemotron_h,
    "granitemoehybrid": hybrid.granite_hybrid,
    "bamba": hybrid.bamba,
    "falcon_h1": hybrid.falcon_h1,
    "jamba": hybrid.jamba,
    "qwen3_next": hybrid.qwen_hybrid,
    "qwen3_5": hybrid.qwen_hybrid,
    "qwen3_5_text": hybrid.qwen_hybrid,
    "qwen3_5_moe": hybrid.qwen_hybrid,
    "qwen3_5_moe_text": hybrid.qwen_hybrid,
    "olmo_hybrid": hybrid.qwen_hybrid,
    "kimi_linear": hybrid.kimi_linear,
    "minimax_text_01": hybrid.minimax_text,
    "minimax_m1": hybrid.minimax_text,
    "minimax": hybrid.minimax_text,
    "whisper": encdec.whisper,
    "lfm2": hybrid.lfm2,
    "lfm2_moe": hybrid.lfm2,
}
"""What reads the layers of a model_type. Another type is refused, never taken for dense."""
