"""--max_seq_len: what TensorRT-LLM infers from a config, to which it cuts a longer one.

(infer_max_seq_len in _torch/models/modeling_utils.py, _init_max_seq_len in
_torch/pyexecutor/model_engine.py.)
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.positions import LENGTHLESS

FLAG, ALLOWED = "--max_seq_len", "TLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
UNNAMED_LENGTH = 2048
_UNSCALED = ("su", "longrope", "llama3", "yarn")


def model_length(architecture: Architecture) -> int:
    """max_position_embeddings x the rotary factor (not of longrope, llama3, YaRN), rounded up.

    0 where the config names none; 2048 of models that have no length.
    """
    lengths, positions = architecture.lengths, architecture.positions
    tokens = lengths.get("max_position_embeddings", lengths.get("n_positions", 0))
    if not tokens:
        return UNNAMED_LENGTH if architecture.model_type in LENGTHLESS else 0
    if positions.nested or not positions.ropes or positions.ropes[0].kind in _UNSCALED:
        return tokens
    return -(-tokens * (positions.ropes[0].factor or Fraction(1)) // 1)


def longest_tokens(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """--max_seq_len, at most the model's unless the environment allows more; 0 without either."""
    own, asked = model_length(architecture), settings["max_seq_len"]
    if asked is None:
        return own
    cut = own and not settings["allow_long_max_model_len"]
    return min(int(asked), own) if cut else int(asked)


def length_line(architecture: Architecture, settings: Mapping[str, Any]) -> str:
    """Say what the length follows from; empty where it is the flag alone."""
    own, asked = model_length(architecture), settings["max_seq_len"]
    if asked is None:
        return f"{FLAG}: not given -> {own} (the model's)"
    if not own or int(asked) <= own:
        return ""
    if settings["allow_long_max_model_len"]:
        return f"{FLAG}: {asked}, above the model's {own} ({ALLOWED})"
    return f"{FLAG}: {asked} -> {own} (the model's; with {ALLOWED} it stays)"
