"""What configs of a model_type leave to their configuration class in Hugging Face transformers."""

from __future__ import annotations

from typing import Any

_GEMMA3 = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window_pattern": 6,
    "max_position_embeddings": 131_072,
    "vocab_size": 262_208,
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "qwen3_next": {"num_nextn_predict_layers": 1},  # as vLLM reads it: the checkpoint has one
}
"""Fields that published configs of these models do leave out."""
