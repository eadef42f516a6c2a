"""What configs leave to their configuration class in Hugging Face transformers.

Sections of published configs are saved without what their class has as a default (to_diff_dict).
"""

from __future__ import annotations

from typing import Any

_SWITCHES = ("use_sliding_window",)
_TABLE = """
num_hidden_layers 12 jetmoe nanochat opt
num_hidden_layers 16 glm_ocr_text hrm_text olmoe
num_hidden_layers 18 ernie4_5 paddleocr_vl_text
num_hidden_layers 22 modernbert-decoder
num_hidden_layers 24 biogpt granite_swa helium phi qwen2_moe qwen3_moe qwen3_vl_moe_text
num_hidden_layers 26 gemma2 gemma3_text vaultgemma
num_hidden_layers 27 kimi_linear
num_hidden_layers 28 cosmos3_edge_text ernie4_5_moe ernie4_5_vl_moe_text gemma mellum
  qwen2_5_omni_text qwen3_omni_moe_text
num_hidden_layers 30 bitnet diffusion_gemma_text gemma4_text gemma4_unified_text starcoder2
num_hidden_layers 32 afmoe apertus arcee aria_text bamba deepseek_ocr2_text deepseek_v2 doge
  emu3_text_model exaone4 exaone_moe falcon falcon_h1 falcon_mamba flex_olmo granite granitemoe
  granitemoe_swa granitemoehybrid granitemoeshared hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text
  hyperclovax jais2 jamba lfm2 lfm2_moe llama mamba minimax ministral mistral mixtral moshi nemotron
  olmo olmo2 olmo3 olmo_hybrid phi3 phi4_multimodal phimoe qwen2 qwen3 qwen3_5_text qwen3_vl_text
  stablelm youtu
num_hidden_layers 34 hy_v4 ministral3
num_hidden_layers 35 gemma3n_text
num_hidden_layers 36 gpt_oss mistral4 persimmon smollm3
num_hidden_layers 40 cohere cohere2 cohere2_moe cohere_compass_text glm glm4 glm4v_text laguna
  qwen3_5_moe_text qwen4_exp_text
num_hidden_layers 43 deepseek_v4
num_hidden_layers 44 gpt_neox
num_hidden_layers 45 step3p5
num_hidden_layers 46 glm4_moe glm4v_moe_text
num_hidden_layers 47 glm4_moe_lite
num_hidden_layers 48 kyutai_speech_to_text llama4_text mimo_v2_flash qwen3_next solar_open
num_hidden_layers 52 muse_glimmer_text
num_hidden_layers 54 zamba2
num_hidden_layers 60 minimax_m3_vl_text
num_hidden_layers 61 axk1 deepseek_v3 deepseek_v32
num_hidden_layers 62 dots1 minicpm3 minimax_m2
num_hidden_layers 64 cwm mamba2 seed_oss
num_hidden_layers 66 inkling_text
num_hidden_layers 78 glm_moe_dsa
num_hidden_layers 80 hy_v3 qwen2_5_vl_text qwen2_vl_text
num_attention_heads 6 nanochat
num_attention_heads 8 diffusion_gemma_text doge gemma2 gemma3_text gemma3n_text gemma4_text
  gemma4_unified_text vaultgemma
num_attention_heads 12 hrm_text modernbert-decoder opt
num_attention_heads 16 afmoe biogpt cosmos3_edge_text ernie4_5 gemma glm_ocr_text olmoe
  paddleocr_vl_text qwen2_moe qwen3_5_moe_text qwen3_5_text qwen3_next qwen3_vl_moe_text
  qwen4_exp_text smollm3 youtu
num_attention_heads 20 bitnet ernie4_5_moe ernie4_5_vl_moe_text glm4_moe_lite granite_swa helium
num_attention_heads 24 starcoder2
num_attention_heads 26 jais2
num_attention_heads 28 qwen2_5_omni_text qwen3_omni_moe_text
num_attention_heads 30 olmo_hybrid
num_attention_heads 32 apertus arcee aria_text bamba deepseek_ocr2_text deepseek_v2 dots1
  emu3_text_model exaone4 exaone_moe falcon_h1 flex_olmo glm glm4 glm4v_text granite granitemoe
  granitemoe_swa granitemoehybrid granitemoeshared hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text
  hy_v4 hyperclovax jamba jetmoe kimi_linear kyutai_speech_to_text lfm2 lfm2_moe llama mellum
  minimax ministral ministral3 mistral mistral4 mixtral moshi muse_glimmer_text nemotron_h olmo
  olmo2 olmo3 phi phi3 phi4_multimodal phimoe qwen2 qwen3 qwen3_moe qwen3_vl_text stablelm zamba2
num_attention_heads 40 llama4_text minicpm3
num_attention_heads 48 cwm laguna minimax_m2 nemotron
num_attention_heads 64 axk1 cohere cohere2 cohere2_moe cohere_compass_text deepseek_v4 glm_moe_dsa
  gpt_neox gpt_oss hy_v3 inkling_text longcat_flash mimo_v2_flash minimax_m3_vl_text persimmon
  qwen2_5_vl_text qwen2_vl_text solar_open step3p5
num_attention_heads 71 falcon
num_attention_heads 80 seed_oss
num_attention_heads 96 glm4_moe glm4v_moe_text
num_attention_heads 128 deepseek_v3 deepseek_v32
hidden_size 64 bloom
hidden_size 768 falcon_mamba mamba modernbert-decoder nanochat opt
hidden_size 1024 biogpt doge ernie4_5 glm_ocr_text paddleocr_vl_text
hidden_size 1536 hrm_text
hidden_size 2048 afmoe cosmos3_edge_text gemma3n_text glm4_moe_lite jetmoe kyutai_speech_to_text
  laguna lfm2_moe olmoe phi qwen2_moe qwen3_5_moe_text qwen3_moe qwen3_next qwen3_omni_moe_text
  qwen3_vl_moe_text qwen4_exp_text smollm3 youtu
hidden_size 2304 diffusion_gemma_text gemma2 gemma3_text gemma4_text gemma4_unified_text kimi_linear
  mellum vaultgemma
hidden_size 2560 arcee bitnet ernie4_5_moe ernie4_5_vl_moe_text granite_swa helium lfm2 minicpm3
  stablelm zamba2
hidden_size 2816 hy_v4
hidden_size 2880 gpt_oss
hidden_size 3072 gemma minimax_m2 phi3 phi4_multimodal starcoder2
hidden_size 3328 jais2
hidden_size 3584 qwen2_5_omni_text
hidden_size 3840 olmo_hybrid
hidden_size 4096 apertus aria_text bamba deepseek_ocr2_text deepseek_v2 deepseek_v4 emu3_text_model
  exaone4 exaone_moe falcon_h1 flex_olmo glm glm4 glm4_moe glm4v_moe_text glm4v_text granite
  granitemoe granitemoe_swa granitemoehybrid granitemoeshared hunyuan_v1_dense hunyuan_v1_moe
  hunyuan_vl_text hy_v3 hyperclovax jamba llama mamba2 mimo_v2_flash minimax ministral ministral3
  mistral mistral4 mixtral moshi nemotron_h olmo olmo2 olmo3 persimmon phimoe qwen2 qwen3
  qwen3_5_text qwen3_vl_text seed_oss solar_open step3p5
hidden_size 4544 falcon
hidden_size 4608 dots1
hidden_size 5120 llama4_text
hidden_size 6144 cwm glm_moe_dsa gpt_neox inkling_text longcat_flash minimax_m3_vl_text nemotron
hidden_size 6656 muse_glimmer_text
hidden_size 7168 axk1 deepseek_v3 deepseek_v32
hidden_size 8192 cohere cohere2 cohere2_moe cohere_compass_text qwen2_5_vl_text qwen2_vl_text
head_dim 32 minicpm3
head_dim 64 axk1 deepseek_v2 deepseek_v3 deepseek_v32 glm_moe_dsa gpt_oss hy_v4 kimi_linear
  longcat_flash mamba2 youtu
head_dim 128 afmoe cohere2_moe cosmos3_edge_text cwm ernie4_5 glm glm4 helium hrm_text hy_v3
  inkling_text laguna llama4_text mellum minimax_m2 minimax_m3_vl_text ministral3 mistral4
  muse_glimmer_text nemotron_h paddleocr_vl_text qwen3 qwen3_vl_text seed_oss solar_open step3p5
head_dim 192 mimo_v2_flash
head_dim 256 gemma gemma2 gemma3_text gemma3n_text qwen3_5_moe_text qwen3_5_text qwen3_next
  qwen4_exp_text vaultgemma
head_dim 512 deepseek_v4
max_position_embeddings 750 kyutai_speech_to_text
max_position_embeddings 1024 biogpt
max_position_embeddings 2048 aria_text bitnet deepseek_ocr2_text deepseek_v2 doge dots1 exaone4
  exaone_moe falcon gpt_neox granite granitemoe granitemoe_swa granitemoehybrid granitemoeshared
  hrm_text hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text hyperclovax llama nanochat olmo olmo2
  olmo3 opt phi
max_position_embeddings 3000 moshi
max_position_embeddings 4096 arcee deepseek_v3 flex_olmo helium jetmoe nemotron nemotron_h olmoe
  phi3 stablelm starcoder2 zamba2
max_position_embeddings 8192 cohere cohere2 cohere2_moe cohere_compass_text falcon_h1 gemma gemma2
  granite_swa jais2 modernbert-decoder vaultgemma
max_position_embeddings 9216 emu3_text_model
max_position_embeddings 16384 afmoe persimmon
max_position_embeddings 32768 axk1 gemma3n_text glm4v_text minicpm3 qwen2 qwen2_5_omni_text
  qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next
  qwen3_omni_moe_text qwen4_exp_text smollm3
max_position_embeddings 65536 apertus glm4v_moe_text olmo_hybrid
max_position_embeddings 128000 lfm2 lfm2_moe qwen3_vl_moe_text qwen3_vl_text step3p5
max_position_embeddings 131072 cosmos3_edge_text cwm diffusion_gemma_text ernie4_5 ernie4_5_moe
  ernie4_5_vl_moe_text gemma3_text gemma4_text glm glm4 glm4_moe glm_ocr_text gpt_oss hy_v3
  inkling_text laguna llama4_text longcat_flash mellum mimo_v2_flash minimax ministral mistral
  mixtral muse_glimmer_text paddleocr_vl_text phi4_multimodal phimoe solar_open youtu
max_position_embeddings 163840 deepseek_v32
max_position_embeddings 196608 minimax_m2
max_position_embeddings 202752 glm4_moe_lite glm_moe_dsa
max_position_embeddings 262144 bamba gemma4_unified_text hy_v4 jamba ministral3
max_position_embeddings 524288 minimax_m3_vl_text seed_oss
max_position_embeddings 1048576 deepseek_v4 mistral4
sliding_window 64 modernbert-decoder
sliding_window 128 deepseek_v4 gpt_oss granite_swa granitemoe_swa mimo_v2_flash
sliding_window 375 kyutai_speech_to_text
sliding_window 512 diffusion_gemma_text gemma3n_text gemma4_text laguna
sliding_window 1024 afmoe gemma4_unified_text mellum
sliding_window 2048 muse_glimmer_text
sliding_window 3000 moshi
sliding_window 4096 cohere2 cohere2_moe cohere_compass_text dots1 exaone4 exaone_moe gemma2
  gemma3_text ministral mistral olmo3 vaultgemma
sliding_window 8192 cwm
num_key_value_heads 1 deepseek_v4 gpt_bigcode
num_key_value_heads 2 ernie4_5 gemma3n_text glm glm4 glm4v_text muse_glimmer_text paddleocr_vl_text
  qwen3_5_moe_text qwen3_next qwen4_exp_text starcoder2
num_key_value_heads 4 diffusion_gemma_text ernie4_5_moe ernie4_5_vl_moe_text gemma2 gemma3_text
  gemma4_text gemma4_unified_text granite_swa mellum mimo_v2_flash minimax_m3_vl_text
  qwen2_5_omni_text qwen3_5_text qwen3_moe qwen3_omni_moe_text smollm3 vaultgemma
num_key_value_heads 5 bitnet
num_key_value_heads 8 bamba cosmos3_edge_text cwm emu3_text_model falcon_h1 glm4_moe glm4v_moe_text
  glm_ocr_text gpt_oss hy_v3 inkling_text jamba laguna lfm2 lfm2_moe llama4_text minimax minimax_m2
  ministral ministral3 mistral mixtral nemotron_h phi4_multimodal phimoe qwen2_5_vl_text
  qwen2_vl_text seed_oss solar_open step3p5
num_key_value_heads 16 gemma jetmoe qwen2_moe qwen3_vl_moe_text youtu
num_key_value_heads 20 glm4_moe_lite helium
num_key_value_heads 32 dots1 exaone4 exaone_moe kimi_linear mistral4 qwen2 qwen3 qwen3_vl_text
  stablelm
num_key_value_heads 40 minicpm3
num_key_value_heads 64 axk1 glm_moe_dsa
num_key_value_heads 128 deepseek_v3 deepseek_v32
mamba_chunk_size 256 bamba falcon_h1 granitemoehybrid
n_positions 256 ctrl
n_positions 1024 gpt2 gpt_bigcode
n_positions 2048 codegen gptj
max_window_layers 28 qwen2 qwen2_5_omni_text qwen2_moe qwen3
max_window_layers 62 dots1
max_window_layers 80 qwen2_5_vl_text qwen2_vl_text
num_kv_shared_layers 15 gemma3n_text
chunk_size 128 nemotron_h
chunk_size 256 mamba2 zamba2
max_seq_len 2048 mpt
use_sliding_window 0 qwen2 qwen2_5_omni_text qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 qwen3_moe
  smollm3
max_target_positions 448 whisper
"""
"""Field, value, and the model types whose class has it: tests/bench/class_defaults.py."""


def _read() -> dict[str, dict[str, Any]]:
    defaults: dict[str, dict[str, Any]] = {}
    for line in _TABLE.replace("\n  ", " ").split("\n"):
        name, value, *types = line.split() or ("", "")
        for model_type in types:
            number = int(value)
            own = defaults.setdefault(model_type, {})
            own[name] = bool(number) if name in _SWITCHES else number
    return defaults


_PATTERNED = {"sliding_window_pattern": 6, "vocab_size": 262_208}
DEFAULTS = _read()
DEFAULTS["gemma3_text"] |= _PATTERNED
DEFAULTS["gemma3"] = DEFAULTS["gemma3_text"]  # a config that is saved without its sections
for _name in ("gemma4_text", "gemma4_unified_text", "diffusion_gemma_text"):
    DEFAULTS[_name]["global_head_dim"] = 512  # of full layers, where no per_layer_config says it
DEFAULTS["qwen3_next"]["num_nextn_predict_layers"] = 1  # as vLLM reads it: the checkpoint has one
"""Fields by model type."""
_LLAMA = {"model_type": "llama", "max_position_embeddings": 131_072, "num_key_value_heads": 8}
IN_SECTION: dict[str, dict[str, Any]] = {
    "voxtral": {**_LLAMA, "num_hidden_layers": 30, "hidden_size": 3072, "head_dim": 128},
    "glmasr": {
        **_LLAMA,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "hidden_size": 2048,
        "max_position_embeddings": 8192,
    },
}
"""Fields of the text section that the class of a whole fills in."""
