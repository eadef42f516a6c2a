"""A GGUF file's metadata -> layers, by llama.cpp's keys and the defaults of its loaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import (
    Architecture,
    Attention,
    Compressed,
    Latent,
    Layer,
    Recurrence,
    Recurrent,
)
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import Misfit
from kvplan.models.units import parse_integer

PERIODS = {
    **dict.fromkeys(("gemma2", "gpt-oss"), 2),
    **dict.fromkeys(("cohere2", "exaone4", "exaone-moe", "afmoe", "olmo2", "llama4"), 4),
    **dict.fromkeys(("mellum", "muse-glimmer"), 4),
    "plamo3": 8,
    "gemma3n": 5,
    "gemma3": 6,
}
"""Every how manieth layer is full, where the file has no pattern (src/models/*.cpp)."""
FULL_FIRST = {"laguna": 4, "cohere2moe": 4, "granite_swa": 4}
"""The same where the first layer of a period is full."""
WINDOWS = {"gemma2": 4096, "exaone4": 4096, "exaone-moe": 128, "llama4": 8192}
"""Windows that a loader knows without the file."""
STATES_BUT_EVERY = 4  # qwen3next, qwen35: full_attention_interval
LISTED_STATES = (
    *("granitehybrid", "jamba", "lfm2", "lfm2moe", "kimi-linear", "kimi-k3", "bailingmoe3"),
)
NEMOTRON = ("nemotron_h", "nemotron_h_moe")
DELTA = ("qwen3next", "qwen35", "qwen35moe")


class Keys:
    """Metadata under the name of the architecture.

    Attributes
    ----------
    arch : general.architecture.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._data = metadata
        self.arch = str(metadata.get("general.architecture") or "")
        if not self.arch:
            raise InvalidProblem.at("general.architecture", "a name", "none")

    def has(self, name: str) -> bool:
        """Whether a key is there."""
        return f"{self.arch}.{name}" in self._data

    def is_list(self, name: str) -> bool:
        """Whether a key has a value for each layer."""
        return isinstance(self._data.get(f"{self.arch}.{name}"), list)

    def count(self, name: str, default: int | None = None) -> int:
        """Whole number of a key.

        Raises
        ------
        InvalidProblem : it is missing and has no default, or is no whole number.
        """
        value = self._data.get(f"{self.arch}.{name}", default)
        try:
            return parse_integer(value)
        except Misfit as error:
            got = "none" if value is None else error.got
            raise InvalidProblem.at(f"{self.arch}.{name}", error.expected, got) from None

    def each(self, name: str, layers: int, default: int | None = None) -> list[int]:
        """A number for each layer: a list, or one for all.

        Raises
        ------
        InvalidProblem : another count of numbers.
        """
        value = self._data.get(f"{self.arch}.{name}")
        if not isinstance(value, list):
            return [self.count(name, default)] * layers
        if len(value) < layers:
            expected = f"{layers} values"
            raise InvalidProblem.at(f"{self.arch}.{name}", expected, f"{len(value)} values")
        return [int(one) for one in value[:layers]]


def gguf_architecture(metadata: Mapping[str, Any]) -> Architecture:
    """Layers of a GGUF file; its name is llama.cpp's own.

    Raises
    ------
    InvalidProblem : a key that is missing or malformed.
    """
    keys = Keys(metadata)
    blocks, drafts = keys.count("block_count"), keys.count("nextn_predict_layers", 0)
    layers = tuple(layer for index in range(blocks) for layer in _layers(keys, index, blocks))
    vocabulary = metadata.get("tokenizer.ggml.tokens")
    return Architecture(
        name=keys.arch,
        model_type=keys.arch,
        dtype="float16",
        layers=layers,
        total_layers=blocks - drafts,
        max_positions=keys.count("context_length", 0),
        vocabulary=vocabulary if isinstance(vocabulary, int) else 0,
        hidden_dim=keys.count("embedding_length", 0),
        query_heads=max(keys.each("attention.head_count", blocks, 0)),
        experts=keys.count("expert_count", 0),
        experts_used=keys.count("expert_used_count", 0),
    )


def _layers(keys: Keys, index: int, blocks: int) -> list[Layer]:
    """What a layer keeps: a state, keys and values, or both (Falcon-H1)."""
    draft = index >= blocks - keys.count("nextn_predict_layers", 0)
    found: list[Layer] = []
    heads = keys.each("attention.head_count", blocks, 0)
    kept = keys.each("attention.head_count_kv", blocks, 0 if not max(heads) else heads[index])
    state = not draft and _has_state(keys, index, blocks, kept[index])
    if state:
        found.append(_state(keys, index))
    shared = blocks - keys.count("attention.shared_kv_layers", 0)
    if kept[index] and index < shared and not (state and keys.arch != "falcon-h1"):
        found.append(_tokens(keys, index, blocks, kept[index], draft=draft))
    return found


def _has_state(keys: Keys, index: int, blocks: int, heads: int) -> bool:
    if keys.arch in ("mamba", "mamba2", "falcon-h1"):
        return True
    if keys.arch in DELTA:
        return (index + 1) % keys.count("full_attention_interval", STATES_BUT_EVERY) != 0
    if keys.arch in NEMOTRON:
        return heads == 0 and keys.each("feed_forward_length", blocks, 0)[index] == 0
    return keys.arch in LISTED_STATES and heads == 0


def _state(keys: Keys, index: int) -> Recurrent:
    """shortconv.*, kda.* or ssm.* as the engine sizes its states (llama-hparams.cpp)."""
    if keys.has("shortconv.l_cache"):
        taps, width = keys.count("shortconv.l_cache"), keys.count("embedding_length")
        return Recurrent(index, "short_conv", 0, 0, 0, 0, taps, width)
    taps = keys.count("ssm.conv_kernel")
    if keys.has("kda.head_dim"):
        heads, dim = keys.count("attention.head_count"), keys.count("kda.head_dim")
        return Recurrent(index, "kda", heads, dim, dim, heads, taps, 3 * heads * dim)
    inner, state = keys.count("ssm.inner_size"), keys.count("ssm.state_size")
    if keys.arch in ("mamba", "jamba"):
        return Recurrent(index, "mamba1", 1, inner, state, 0, taps, inner)
    groups, heads = keys.count("ssm.group_count", 0), keys.count("ssm.time_step_rank")
    channels = inner + 2 * groups * state
    kind: Recurrence = "gdn" if keys.arch in DELTA else "mamba2"
    heads = max(1, heads)
    return Recurrent(index, kind, heads, inner // heads, state, groups, taps, channels)


def _tokens(keys: Keys, index: int, blocks: int, heads: int, *, draft: bool) -> Layer:
    width = keys.count("embedding_length", 0) // max(
        1, keys.each("attention.head_count", blocks)[0]
    )
    if keys.arch == "deepseek4":
        return _compressed(keys, index, blocks, draft=draft)
    if keys.has("attention.kv_lora_rank"):
        return _latent(keys, index, blocks, draft=draft)
    window = 0 if draft else _window(keys, index, blocks)
    suffix = "_swa" if window and keys.has("attention.key_length_swa") else ""
    key, value = (
        keys.count(
            f"attention.{side}_length{suffix}", keys.count(f"attention.{side}_length", width)
        )
        for side in ("key", "value")
    )
    if not window:
        return Attention(index, "full", heads, key, value, draft=draft)
    if keys.arch == "llama4":
        return Attention(index, "chunked", heads, key, value, chunk=window)
    return Attention(index, "window", heads, key, value, window=window)


def _latent(keys: Keys, index: int, blocks: int, *, draft: bool) -> Latent:
    """One row of key_length values; indexer keys in the layers of indexer.types (default all)."""
    rank = keys.count("attention.kv_lora_rank")
    rope = keys.count("rope.dimension_count", keys.count("attention.key_length") - rank)
    owned = keys.count("attention.indexer.key_length", 0)
    if owned and keys.has("attention.indexer.types"):
        kinds = keys.each("attention.indexer.types", blocks - keys.count("nextn_predict_layers", 0))
        owned = owned if index < len(kinds) and kinds[index] else 0
    return Latent(index, rank, rope, index_dim=0 if draft else owned, draft=draft)


def _compressed(keys: Keys, index: int, blocks: int, *, draft: bool) -> Compressed:
    rope = keys.count("rope.dimension_count")
    ratio = keys.each("attention.compress_ratios", blocks)[index]
    return Compressed(
        index,
        keys.count("attention.sliding_window"),
        keys.count("attention.key_length") - rope,
        rope,
        ratio,
        index_dim=keys.count("attention.indexer.key_length") if ratio == 4 else 0,
        draft=draft,
    )


def _window(keys: Keys, index: int, blocks: int) -> int:
    """Tokens of a layer's window, 0 where it is full."""
    window = keys.count("attention.sliding_window", WINDOWS.get(keys.arch, 0))
    if not window:
        return 0
    name = "attention.sliding_window_pattern"
    if keys.is_list(name):
        return window if keys.each(name, blocks)[index] else 0
    first = FULL_FIRST.get(keys.arch)
    if first is not None:
        return window if index % keys.count(name, first) else 0
    period = PERIODS.get(keys.arch)
    if period is None:
        return 0
    return window if (index + 1) % max(1, keys.count(name, period)) else 0
