"""--context-length: what SGLang 0.5.23 derives from a config, and refuses.

(ModelConfig._derive_context_length, hf_transformers/common.py: get_context_length.)
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvplan.models.engines.assumed import Derivation
from kvplan.models.engines.command_line.typed import config_overrides
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.positions import LENGTHLESS
from kvplan.models.engines.sglang.launch.speculation import algorithm_of
from kvplan.models.errors import InvalidProblem

FLAG, ALLOWED = "--context-length", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
UNNAMED_CONTEXT = 2048
_KEYS = (
    *("max_sequence_length", "seq_length", "max_seq_len", "model_max_length"),
    *("max_position_embeddings", "n_positions"),
)
"""CONTEXT_LENGTH_KEYS; n_positions is what GPT-2 calls max_position_embeddings."""


def model_context(architecture: Architecture) -> int:
    """First of the config's keys x the rotary factor; 2048 without a key.

    The factor is 1 with original_max_position_embeddings beside it, which llama3, YaRN and longrope
    have in every config, and where each kind of layer has parameters of its own.
    """
    lengths, positions = architecture.lengths, architecture.positions
    tokens = next((lengths[key] for key in _KEYS if key in lengths), 0)
    if not tokens or positions.nested or not positions.ropes:
        return tokens or UNNAMED_CONTEXT
    (rope,) = positions.ropes
    scaled = not rope.original and rope.kind != "llama3"
    return int(tokens * (rope.factor or Fraction(1))) if scaled else tokens


def context_tokens(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """--context-length, or the model's own."""
    return int(settings["context_length"] or model_context(architecture))


def derive_context(architecture: Architecture, found: Derivation) -> None:
    """Check the context against the model's and a separate draft's, which runs at the same.

    Raises
    ------
    InvalidProblem : one above either, unless the environment allows it.
    """
    if not any(key in architecture.lengths for key in _KEYS):
        found.default(FLAG, UNNAMED_CONTEXT, "the config names none")
    asked, allowed = context_tokens(architecture, found.values), bool(_allowed(found))
    _check(architecture, asked, allowed, "")
    draft = _draft(found)
    if draft is not None:
        _check(draft, asked, allowed, ", the draft's own length")


def _check(architecture: Architecture, asked: int, allowed: bool, whose: str) -> None:
    """Refuse a context above what a config says; one that says nothing passes."""
    known = architecture.positions.declared and any(key in architecture.lengths for key in _KEYS)
    if allowed or not (known or architecture.model_type in LENGTHLESS):
        return
    largest = model_context(architecture)
    if asked > largest:
        expected = f"at most {largest}{whose}, or {ALLOWED} before the command"
        raise InvalidProblem.at(FLAG, expected, str(asked))


def _allowed(found: Derivation) -> Any:
    return found.get("allow_longer_context")


def _draft(found: Derivation) -> Architecture | None:
    """A separate draft, as the same overrides leave it; None without its config."""
    from kvplan.models.engines.architecture import load_model

    path = found["speculative_draft_model_path"]
    if algorithm_of(found.values) in (None, "NGRAM") or path is None or not Path(path).exists():
        return None
    return load_model(path, config_overrides(found.values))[0]
