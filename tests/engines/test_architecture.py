"""Configs to layers: kinds, counts, geometry; and precise refusals instead of guesses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import load_architecture, read_architecture
from kvplan.models.engines.layers import Attention, Compressed, Latent, Recurrent
from kvplan.models.errors import Fault
from support.vllm_server import CONFIGS, architecture

Shape = tuple[object, ...]


def shape(layer: object) -> Shape:
    """What a layer keeps, without its position."""
    if isinstance(layer, Attention):
        return layer.reach, layer.kv_heads, layer.key_dim, layer.window or layer.chunk
    if isinstance(layer, Latent):
        return "mla", layer.latent_dim, layer.rope_dim, layer.index_dim
    if isinstance(layer, Compressed):
        return "compressed", layer.ratio, layer.window, layer.index_dim
    assert isinstance(layer, Recurrent)
    return layer.recurrence, layer.heads, layer.head_dim, layer.state_dim, layer.conv_channels


KINDS: dict[str, dict[Shape, int]] = {
    "CodeLlama-7b-hf": {("full", 32, 128, None): 32},
    "Qwen2.5-7B-Instruct": {("full", 4, 128, None): 28},
    "gpt2": {("full", 12, 64, None): 12},
    "gemma-2-2b-it": {("window", 4, 256, 4096): 13, ("full", 4, 256, None): 13},
    "gemma-3-4b-it": {("window", 4, 256, 1024): 29, ("full", 4, 256, None): 5},
    "gemma-3-27b-it": {("window", 16, 128, 1024): 52, ("full", 16, 128, None): 10},
    "Gemma-4-31B-IT-NVFP4": {("window", 16, 256, 1024): 50, ("full", 4, 512, None): 10},
    "gpt-oss-120b": {("window", 8, 64, 128): 18, ("full", 8, 64, None): 18},
    "Llama-4-Maverick-17B-128E-Instruct": {
        ("chunked", 8, 128, 8192): 36,
        ("full", 8, 128, None): 12,
    },
    "Llama-3_3-Nemotron-Super-49B-v1": {("full", 8, 128, None): 49},
    "MiniMax-M2.5": {("full", 8, 128, None): 65},
    "Kimi-K2-Instruct": {("mla", 512, 64, 0): 61},
    "Kimi-VL-A3B-Instruct": {("mla", 512, 64, 0): 27},
    "DeepSeek-V3.2": {("mla", 512, 64, 128): 62},
    "GLM-5.2": {("mla", 512, 64, 128): 22, ("mla", 512, 64, 0): 57},
    "DeepSeek-V4-Flash": {
        ("compressed", 0, 128, 0): 3,
        ("compressed", 4, 128, 128): 21,
        ("compressed", 128, 128, 0): 20,
    },
    "DeepSeek-V4-Pro": {
        ("compressed", 0, 128, 0): 1,
        ("compressed", 4, 128, 128): 30,
        ("compressed", 128, 128, 0): 31,
    },
    "Kimi-K3": {("kda", 96, 128, 128, 36_864): 69, ("mla", 512, 64, 0): 24},
    "Qwen3-Next-80B-A3B-Thinking": {
        ("gdn", 32, 128, 128, 8192): 36,
        ("full", 2, 256, None): 13,
    },
    "Qwen3.6-27B-NVFP4": {("gdn", 48, 128, 128, 10_240): 48, ("full", 4, 256, None): 17},
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {
        ("mamba2", 64, 64, 128, 6144): 23,
        ("full", 2, 128, None): 6,
    },
    "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": {
        ("mamba2", 256, 64, 128, 18_432): 48,
        ("full", 2, 128, None): 13,
    },
    "granite-4.0-h-small": {("mamba2", 128, 64, 128, 8448): 36, ("full", 8, 128, None): 4},
    "Jamba-v0.1": {("mamba1", 1, 8192, 16, 8192): 28, ("full", 8, 128, None): 4},
    "MiniMax-Text-01": {("linear", 64, 128, 128, 0): 70, ("full", 8, 128, None): 10},
    "LFM2-1.2B": {("short_conv", 0, 0, 0, 2048): 10, ("full", 8, 64, None): 6},
}


@pytest.mark.parametrize("model", KINDS)
def test_what_the_layers_keep(model: str) -> None:
    assert Counter(map(shape, architecture(model).layers)) == KINDS[model]


@pytest.mark.parametrize("model", CONFIGS)
def test_layers_lie_in_order_and_drafts_behind_the_target(model: str) -> None:
    known = architecture(model)
    positions = [layer.index for layer in known.layers]
    assert positions == sorted(positions)
    assert all(layer.index < known.total_layers for layer in known.target)
    assert all(layer.index >= known.total_layers for layer in known.draft)
    assert known.name
    assert known.read


def test_index_owners_of_glm_5() -> None:
    owners = [x.index for x in architecture("GLM-5.2").layers if getattr(x, "index_dim", 0)]
    assert owners == [0, 1, 2, *range(6, 78, 4), 78]


def test_every_fourth_layer_of_a_llama_4_is_full() -> None:
    layers = architecture("Llama-4-Scout-17B-16E-Instruct").layers
    full = [x.index for x in layers if isinstance(x, Attention) and x.reach == "full"]
    assert full == list(range(3, 48, 4))


def changed(model: str, **fields: Any) -> dict[str, Any]:
    """A config with other fields in its text part; None leaves one out."""
    config = CONFIGS[model]
    text = {**config.get("text_config", config), **fields}
    text = {key: value for key, value in text.items() if value is not None}
    return {**config, "text_config": text} if "text_config" in config else text


def test_layers_that_read_another_cache_own_none() -> None:
    """Gemma-3n and -4: the last num_kv_shared_layers."""
    layers = read_architecture(changed("Gemma-4-31B-IT-NVFP4", num_kv_shared_layers=20)).layers
    assert [layer.index for layer in layers] == list(range(40))


def test_windows_of_mistral_and_of_qwen2() -> None:
    slides = changed("Meta-Llama-3.1-8B", model_type="mistral", sliding_window=4096)
    assert {x.reach for x in read_architecture(slides).layers} == {"window"}  # type: ignore[union-attr]
    lower = changed("Qwen2.5-7B-Instruct", use_sliding_window=True, max_window_layers=20)
    reaches = [x.reach for x in read_architecture(lower).layers]  # type: ignore[union-attr]
    assert reaches == ["full"] * 20 + ["window"] * 8


def test_missing_heads_are_as_many_as_queries_and_missing_head_size_is_the_quotient() -> None:
    bare = changed("CodeLlama-7b-hf", num_key_value_heads=None)
    assert shape(read_architecture(bare).layers[0]) == ("full", 32, 128, None)


@pytest.mark.parametrize(
    ("model", "field", "path"),
    [
        ("gemma-2-2b-it", "sliding_window", "config.sliding_window"),
        ("gpt-oss-120b", "layer_types", "config.layer_types"),
        ("DeepSeek-R1", "kv_lora_rank", "config.kv_lora_rank"),
        ("DeepSeek-V4-Pro", "compress_ratios", "config.compress_ratios"),
        ("Qwen3.6-27B-NVFP4", "linear_key_head_dim", "config.text_config.linear_key_head_dim"),
        ("Kimi-K3", "linear_attn_config", "config.text_config.linear_attn_config"),
        ("LFM2-1.2B", "conv_L_cache", "config.conv_L_cache"),
        ("Meta-Llama-3.1-8B", "num_hidden_layers", "config.num_hidden_layers"),
    ],
)
def test_a_missing_field_is_named(model: str, field: str, path: str) -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_architecture(changed(model, **{field: None}))
    assert path in [fault.path for fault in refusal.value.faults]


def test_all_missing_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_architecture({"model_type": "deepseek_v3", "num_hidden_layers": 2})
    assert [fault.path for fault in refusal.value.faults] == [
        "config.kv_lora_rank",
        "config.qk_rope_head_dim",
    ]


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({}, "num_hidden_layers, num_key_value_heads, head_dim, and the kind of layers"),
        ({"kv_lora_rank": 512}, "kv_lora_rank and qk_rope_head_dim"),
        ({"sliding_window": 128}, "which layers slide"),
        ({"mamba_d_state": 16}, "the mamba_\\* geometry"),
    ],
)
def test_an_unknown_architecture_is_refused_with_what_it_would_need(
    fields: dict[str, Any], needed: str
) -> None:
    config = {**CONFIGS["Meta-Llama-3.1-8B"], "model_type": "novel_moe", **fields}
    with pytest.raises(InvalidProblem, match=needed) as refusal:
        read_architecture(config)
    assert refusal.value.faults[0].path == "config.model_type"
    assert "novel_moe" in refusal.value.faults[0].got


@pytest.mark.parametrize(
    ("model", "fields", "path"),
    [
        ("Meta-Llama-3.1-8B", {"num_hidden_layers": -1}, "config.num_hidden_layers"),
        ("Meta-Llama-3.1-8B", {"num_hidden_layers": 10**9}, "config.num_hidden_layers"),
        ("Meta-Llama-3.1-8B", {"num_key_value_heads": 0}, "config.num_key_value_heads"),
        ("Meta-Llama-3.1-8B", {"head_dim": "wide"}, "config.head_dim"),
        ("gpt-oss-120b", {"layer_types": ["full_attention"]}, "config.layer_types"),
        ("gpt-oss-120b", {"layer_types": ["magic"] * 36}, "config.layer_types[0]"),
        ("gpt-oss-120b", {"layer_types": 3}, "config.layer_types"),
        ("DeepSeek-V4-Pro", {"compress_ratios": [4] * 61}, "config.compress_ratios"),
        (
            "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            {"hybrid_override_pattern": "MXM"},
            "config.hybrid_override_pattern",
        ),
    ],
)
def test_a_malformed_field_is_named(model: str, fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_architecture(changed(model, **fields))
    assert refusal.value.faults[0].path == path


def test_a_file_may_hold_the_config_under_a_key(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{"note": 1, "config": {"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 64}}'
    )
    assert [shape(layer) for layer in load_architecture(path).layers] == [("full", 4, 16, None)] * 2


def test_a_list_is_no_config(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[]")
    with pytest.raises(InvalidProblem, match="a mapping"):
        load_architecture(path)


@pytest.mark.parametrize("model", CONFIGS)
@pytest.mark.parametrize("wrong", [-1, 0, 10**30, 1.5, "x", [], {}, [None], True])
def test_any_wrong_value_is_a_fault_or_another_model_never_a_crash(model: str, wrong: Any) -> None:
    fields = CONFIGS[model].get("text_config", CONFIGS[model])
    faults = [fault for field in fields for fault in faults_of(changed(model, **{field: wrong}))]
    assert faults
    assert all(fault.path.startswith("config") for fault in faults)


def faults_of(config: dict[str, Any]) -> tuple[Fault, ...]:
    """What is wrong with a config; nothing where it reads as some model."""
    try:
        read_architecture(config)
    except InvalidProblem as error:
        return error.faults
    return ()
