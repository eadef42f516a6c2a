"""llama.cpp's models (tests/cases/llamacpp.json) as layers, by its architectures' patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvplan.models.engines.layers import Architecture, Attention, Latent, Layer, Recurrent
from kvplan.models.engines.llamacpp import FLAGS
from kvplan.models.engines.registry import Settings
from kvplan.models.reading.loader import load_data

Meta = dict[str, Any]
_FILE = load_data(Path(__file__).parents[1] / "cases" / "llamacpp.json")
MODELS: dict[str, Meta] = _FILE["models"]
CASES: dict[str, Meta] = {case["id"]: case for case in _FILE["cases"]}
FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "llama4": 4}
STATE_BUT_EVERY = {"qwen3next": 4, "qwen35": 4}
MODEL_TYPES = {"qwen35": "qwen3_5", "qwen3next": "qwen3_next"}


def settings_of(case: Meta) -> Settings:
    """Flags of a case."""
    given = {
        "ctx_size": case["n_ctx"],
        "parallel": case["n_seq_max"],
        "batch_size": case["n_batch"],
        "ubatch_size": case["n_ubatch"],
        "cache_type_k": case.get("type_k", "f16"),
        "cache_type_v": case.get("type_v", "f16"),
        "flash_attn": case.get("flash_attn", "auto"),
        "available": 2**40,
    }
    return Settings(FLAGS, given)


def architecture_of(case: Meta) -> Architecture:
    """Layers of a case's model."""
    meta = MODELS[case["id"].split("/")[0]]
    count, arch = meta["block_count"], meta["arch"]
    kept = count - meta.get("attention.shared_kv_layers", 0)
    layers = [layer for index in range(count) for layer in _layers(meta, index, kept)]
    return Architecture(
        name=arch,
        model_type=MODEL_TYPES.get(arch, arch),
        dtype="float16",
        layers=tuple(layers),
        total_layers=count,
        max_positions=0,
    )


def _layers(meta: Meta, index: int, kept: int) -> list[Layer]:
    found: list[Layer] = []
    if _has_state(meta, index):
        found.append(_state(meta, index))
    heads = _heads(meta, index)
    if heads and index < kept and not (found and meta["arch"] != "falcon-h1"):
        found.append(_tokens(meta, index, heads))
    return found


def _heads(meta: Meta, index: int) -> int:
    heads = meta.get("attention.head_count_kv", 0)
    return int(heads[index] if isinstance(heads, list) else heads)


def _tokens(meta: Meta, index: int, heads: int) -> Layer:
    if "attention.kv_lora_rank" in meta:
        rank = meta["attention.kv_lora_rank"]
        return Latent(index, rank, meta["attention.key_length"] - rank)
    window, chunk = meta.get("attention.sliding_window"), meta.get("attention.chunk_size")
    slides = _slides(meta, index)
    suffix = "_swa" if slides and "attention.key_length_swa" in meta else ""
    dims = (meta[f"attention.{side}_length{suffix}"] for side in ("key", "value"))
    if not slides:
        return Attention(index, "full", heads, *dims)
    reach = "window" if window else "chunked"
    return Attention(index, reach, heads, *dims, window=window, chunk=chunk)


def _slides(meta: Meta, index: int) -> bool:
    if "attention.sliding_window_pattern" in meta:
        return bool(meta["attention.sliding_window_pattern"][index])
    every = FULL_EVERY.get(meta["arch"])
    return every is not None and (index + 1) % every != 0


def _has_state(meta: Meta, index: int) -> bool:
    if "ssm.conv_kernel" not in meta and "shortconv.l_cache" not in meta:
        return False
    if meta["arch"] in STATE_BUT_EVERY:
        return (index + 1) % STATE_BUT_EVERY[meta["arch"]] != 0
    if meta["arch"] == "nemotron_h":
        return _heads(meta, index) == 0 and meta["feed_forward_length"][index] == 0
    return meta["arch"] == "falcon-h1" or _heads(meta, index) == 0


def _state(meta: Meta, index: int) -> Layer:
    if "shortconv.l_cache" in meta:
        taps, channels = meta["shortconv.l_cache"], meta["embedding_length"]
        return Recurrent(index, "short_conv", 0, 0, 0, 0, taps, channels)
    inner, state, taps = (meta[f"ssm.{key}"] for key in ("inner_size", "state_size", "conv_kernel"))
    first = meta["arch"] in ("mamba", "jamba")
    groups = 0 if first else meta["ssm.group_count"]
    heads = 1 if first else meta["ssm.time_step_rank"]
    return Recurrent(
        index=index,
        recurrence="mamba1" if first else "mamba2",
        heads=heads,
        head_dim=inner // heads,
        state_dim=state,
        groups=groups,
        conv_kernel=taps,
        conv_channels=inner + 2 * groups * state,
    )
