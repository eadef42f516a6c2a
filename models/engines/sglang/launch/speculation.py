"""Speculation in SGLang 0.5.23: its parameters, and the draft's layers (speculative_hook.py)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.models.engines.assumed import Derivation
from kvplan.models.engines.layers import Architecture, Attention, Layer
from kvplan.models.engines.sglang.classes import LONG_TREES
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

EAGLES = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
ALGORITHMS = (*EAGLES, "NGRAM", "DFLASH")
REQUESTS = 48
NGRAM_TOKENS, BLOCK_TOKENS = 12, 16
LONG, SHORT = (5, 4, 8), (3, 1, 4)  # steps, branches, tokens


def derive_speculation(architecture: Architecture, found: Derivation) -> None:
    """Fill in steps, branches, tokens and the limit of requests.

    EAGLE, EAGLE3, STANDALONE without steps: 3 / 1 / 4 (Llama, Grok: 5 / 4 / 8, not STANDALONE); one
    branch verifies steps + 1 tokens. NGRAM: 12 tokens, the branches of
    --speculative-ngram-max-bfs-breadth. DFLASH: the draft's block. All: 48 requests.
    """
    word = algorithm_of(found.values)
    if word is None:
        return
    found.set("--speculative-algorithm", word, "", quiet=True)
    if word == "NGRAM":
        found.set("--speculative-eagle-topk", found["speculative_ngram_max_bfs_breadth"], "NGRAM")
        found.default("--speculative-num-draft-tokens", NGRAM_TOKENS, "NGRAM")
        steps = found["speculative_num_draft_tokens"] // max(1, found["speculative_eagle_topk"])
        found.default("--speculative-num-steps", steps, "NGRAM", quiet=True)
    elif word == "DFLASH":
        block = found["speculative_dflash_block_size"] or _block_tokens(found.values)
        found.default("--speculative-num-draft-tokens", block, "the draft's block")
        found.set("--speculative-num-steps", 1, "DFLASH", quiet=True)
        found.set("--speculative-eagle-topk", 1, "DFLASH", quiet=True)
    else:
        _derive_tree(architecture, found, word)
    found.default("--max-running-requests", REQUESTS, "speculation")


def algorithm_of(settings: Mapping[str, Any]) -> str | None:
    """--speculative-algorithm in upper case.

    Raises
    ------
    InvalidProblem : one that is not modelled.
    """
    word = settings["speculative_algorithm"]
    if word is None:
        return None
    if str(word).upper() not in ALGORITHMS:
        expected = f"one of {', '.join(ALGORITHMS)}"
        raise InvalidProblem.at("--speculative-algorithm", expected, shown(word))
    return str(word).upper()


def _derive_tree(architecture: Architecture, found: Derivation, word: str) -> None:
    flags = ("num-steps", "eagle-topk", "num-draft-tokens")
    keys = [f"speculative_{flag.replace('-', '_')}" for flag in flags]
    if all(found[key] is None for key in keys):
        is_long = architecture.name in LONG_TREES and word != "STANDALONE"
        for flag, value in zip(flags, LONG if is_long else SHORT, strict=True):
            found.set(f"--speculative-{flag}", value, f"{word} of {architecture.name}")
    steps, branches, tokens = (found[key] for key in keys)
    if steps is not None and branches == 1 and tokens != steps + 1:
        why = "steps + 1 with one branch"
        found.set("--speculative-num-draft-tokens", steps + 1, why)


def draft_layers(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Layers of the draft that share the pool's token ids; 0 without speculation.

    Raises
    ------
    InvalidProblem : a draft whose size cannot be told.
    """
    word = algorithm_of(settings)
    if word in (None, "NGRAM"):
        return 0
    if word == "DFLASH":
        return len(dflash_layers(settings))
    if settings["speculative_draft_layers"] is not None:
        return int(settings["speculative_draft_layers"])
    path = settings["speculative_draft_model_path"]
    if path is not None and Path(path).exists():
        return max(1, len(_draft(path).target))
    if architecture.draft and word in ("EAGLE", "NEXTN"):
        return len(architecture.draft)
    expected = f"the draft's layers ({word}: the config has no MTP layer), or its config.json as "
    expected += "--speculative-draft-model-path"
    raise InvalidProblem.at("--speculative-draft-layers", expected, shown(path) if path else "none")


def dflash_layers(settings: Mapping[str, Any]) -> tuple[Layer, ...]:
    """Layers of a DFLASH draft, which has a geometry of its own.

    Raises
    ------
    InvalidProblem : no config of the draft, or pipeline stages, which the engine refuses.
    """
    path = settings["speculative_draft_model_path"]
    if int(settings["pp_size"]) > 1:
        raise InvalidProblem.at("--pp-size", "1 with --speculative-algorithm DFLASH", "more")
    if path is None or not Path(path).exists():
        expected = "the draft's config.json, which --speculative-algorithm DFLASH reads"
        where = "--speculative-draft-model-path"
        raise InvalidProblem.at(where, expected, shown(path) if path else "none")
    return tuple(layer for layer in _draft(path).target if isinstance(layer, Attention))


def _draft(path: str) -> Architecture:
    from kvplan.models.engines.architecture import load_architecture

    return load_architecture(path)


def _block_tokens(settings: Mapping[str, Any]) -> int:
    """dflash_config.block_size or block_size of the draft's config; 16 without one."""
    from kvplan.models.engines.architecture import load_config

    path = settings["speculative_draft_model_path"]
    if path is None or not Path(path).exists():
        return BLOCK_TOKENS
    config = load_config(path)
    inner = config.get("dflash_config")
    for part in (inner if isinstance(inner, Mapping) else {}, config):
        if isinstance(part.get("block_size"), int):
            return int(part["block_size"])
    return BLOCK_TOKENS
