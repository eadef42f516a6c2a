"""Model types that none of the engines serves from a cache, each kind with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ENCODERS = """
albert bert bert-generation big_bird bros camembert canine clap clip convbert data2vec-text deberta
deberta-v2 distilbert electra ernie esm esmc eurobert flaubert fnet funnel gte ibert
embedding_gemma2 jina_embeddings_v3 layoutlm layoutlmv2 layoutlmv3 lilt longformer luke lxmert
markuplm megatron-bert
mobilebert modernbert mpnet mra neomme nomic_bert nystromformer openai_privacy_filter perceiver
rembert roberta roberta-prelayernorm roc_bert roformer siglip siglip2 splinter squeezebert tapas
visual_bert xlm xlm-roberta xlm-roberta-xl xmod yoso
"""
_CROSS = """
bart bigbird_pegasus blenderbot blenderbot-small canary dia donut encoder-decoder fsmt
led longt5 m2m_100 marian mbart moonshine mt5 mvp nllb-moe pegasus pegasus_x pix2struct plbart
prophetnet seamless_m4t seamless_m4t_v2 speech_to_text switch_transformers t5 t5gemma t5gemma2
trocr udop umt5
"""
_STATES = "recurrent_gemma rwkv xlstm zamba"
_NO_BACKEND = """
blip blt codegen cpmant diffllama evolla git gpt_neo gpt_neox_japanese idefics kosmos-2 kosmos-2.5
openai-gpt reformer xglm xlnet
"""
_RINGS = "glm5_next glm5_next_text deepseek_v41"
_DRAFTS = "gemma4_assistant gemma4_unified_assistant muse_glimmer_assistant"

REASONS: dict[str, str] = {
    **dict.fromkeys(_ENCODERS.split(), "a model that generates: an encoder keeps no cache"),
    **dict.fromkeys(
        _CROSS.split(),
        "a decoder, or Whisper: no other encoder-decoder is served (vLLM gave them up after 0.10)",
    ),
    **dict.fromkeys(
        _STATES.split(), "states that an engine here serves: none has a class for these"
    ),
    **dict.fromkeys(
        _NO_BACKEND.split(),
        "a class that an engine has: vLLM's Transformers backend takes none",
    ),
    **dict.fromkeys(
        _RINGS.split(), "no ring of keys for each request (vLLM's CircularBufferSpec: not modelled)"
    ),
    **dict.fromkeys(_DRAFTS.split(), "a model by itself: a draft's caches depend on its target"),
    **dict.fromkeys(
        ("cohere_asr", "nemotron_parse"),
        "a decoder, or Whisper: other cross caches are not modelled",
    ),
    "voxtral_realtime": "no cache of the audio encoder's own (not modelled)",
    "zaya": "no convolutions inside its attention (SGLang's ZayaForCausalLM: not modelled)",
    "axk2": "no sparse MLA on the Transformers backend, which keeps no indexer's keys",
    "mllama": "no cross-attention over images (vLLM gave MllamaForConditionalGeneration up after "
    "0.10.2; SGLang's is not modelled)",
}
"""What was expected in place of such a model."""


def why_not(config: Mapping[str, Any], *model_types: str) -> str | None:
    """Say why a model type is served by no engine here; None where it is not known to be so.

    model_types : of the text model, and of the whole.
    """
    known = next((REASONS[name] for name in model_types if name in REASONS), None)
    if known is None and config.get("is_encoder_decoder") is True:
        return REASONS["t5"]
    return known
