"""Families with field names of their own: kinds, heads and sizes of their layers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.layers import Attention, Latent, Recurrent
from kvplan.models.engines.registry import engine_named
from kvplan.models.engines.vllm.launch.server import server_of
from support.vllm_server import settings

S, F = "sliding_attention", "full_attention"
PLAIN = {"num_hidden_layers": 4, "num_attention_heads": 32, "hidden_size": 4096}
GROUPED = {**PLAIN, "num_key_value_heads": 8, "head_dim": 128}

CASES: dict[str, tuple[dict[str, Any], dict[tuple[Any, ...], int]]] = {
    "olmo3": (
        {**GROUPED, "sliding_window": 4096, "layer_types": [S, S, S, F]},
        {(8, 128, 128, 4096): 3, (8, 128, 128, None): 1},
    ),
    "olmo3 without kinds": (
        {"model_type": "olmo3", **GROUPED, "sliding_window": 4096},
        {(8, 128, 128, 4096): 3, (8, 128, 128, None): 1},
    ),
    "smollm3": ({**GROUPED, "use_sliding_window": False}, {(8, 128, 128, None): 4}),
    "ernie4_5": (GROUPED, {(8, 128, 128, None): 4}),
    "ernie4_5_moe": ({**GROUPED, "num_nextn_predict_layers": 1}, {(8, 128, 128, None): 5}),
    "hunyuan_v1_dense": (GROUPED, {(8, 128, 128, None): 4}),
    "hunyuan_v1_moe": ({**GROUPED, "use_cla": False}, {(8, 128, 128, None): 4}),
    "dots1": ({**PLAIN, "num_key_value_heads": 32, "head_dim": 128}, {(32, 128, 128, None): 4}),
    "ministral3": (GROUPED, {(8, 128, 128, None): 4}),
    "exaone_moe": (
        {**GROUPED, "sliding_window": 128, "sliding_window_pattern": "LLLG"},
        {(8, 128, 128, 128): 3, (8, 128, 128, None): 1},
    ),
    "falcon": (PLAIN, {(1, 128, 128, None): 4}),  # multi_query is the default
    "falcon new": (
        {"model_type": "falcon", **PLAIN, "new_decoder_architecture": True, "num_kv_heads": 8},
        {(8, 128, 128, None): 4},
    ),
    "falcon rw": (
        {"model_type": "falcon", **PLAIN, "multi_query": False},
        {(32, 128, 128, None): 4},
    ),
    "gpt_bigcode": (
        {"n_layer": 3, "n_head": 16, "n_embd": 2048, "multi_query": True},
        {(1, 128, 128, None): 3},
    ),
    "dbrx": (
        {"n_layers": 2, "n_heads": 48, "d_model": 6144, "attn_config": {"kv_n_heads": 8}},
        {(8, 128, 128, None): 2},
    ),
    "chatglm": (
        {
            "num_layers": 2,
            "num_attention_heads": 32,
            "hidden_size": 4096,
            "kv_channels": 128,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
        },
        {(2, 128, 128, None): 2},
    ),
    "bloom": ({"n_layer": 2, "n_head": 16, "n_embed": 1024}, {(16, 64, 64, None): 2}),
    "laguna": (
        {**GROUPED, "sliding_window": 512, "layer_types": [F, S, S, S]},
        {(8, 128, 128, 512): 3, (8, 128, 128, None): 1},
    ),
    "laguna without a window": ({"model_type": "laguna", **GROUPED}, {(8, 128, 128, None): 4}),
    "mimo_v2_flash": (
        {
            **PLAIN,
            "num_key_value_heads": 4,
            "head_dim": 192,
            "v_head_dim": 128,
            "swa_num_key_value_heads": 8,
            "swa_head_dim": 192,
            "swa_v_head_dim": 128,
            "sliding_window": 128,
            "hybrid_layer_pattern": [0, 1, 1, 1],
        },
        {(8, 192, 128, 128): 3, (4, 192, 128, None): 1},
    ),
    "step3p5": (
        {
            **PLAIN,
            "head_dim": 128,
            "num_attention_groups": 8,
            "sliding_window": 512,
            "num_nextn_predict_layers": 1,
            "attention_other_setting": {"num_attention_groups": 4},
            "layer_types": [F, S, S, S, S],
        },
        {(4, 128, 128, 512): 4, (8, 128, 128, None): 1},
    ),
}


def shapes(config: dict[str, Any], name: str) -> Counter[tuple[Any, ...]]:
    """Layers of a config by what they keep."""
    layers = read_architecture({"model_type": name.split()[0], **config}).layers
    assert all(isinstance(layer, Attention) for layer in layers)
    return Counter(
        (layer.kv_heads, layer.key_dim, layer.value_dim, layer.window)
        for layer in layers
        if isinstance(layer, Attention)
    )


@pytest.mark.parametrize("name", CASES)
def test_layers_of_a_family(name: str) -> None:
    config, expected = CASES[name]
    assert shapes(config, name) == expected


def test_latent_families() -> None:
    shape = {"num_hidden_layers": 3, "kv_lora_rank": 256, "qk_rope_head_dim": 64}
    for name in ("mistral4", "glm4_moe_lite"):
        layers = read_architecture({"model_type": name, **shape}).layers
        assert [(one.latent_dim, one.rope_dim) for one in layers if isinstance(one, Latent)] == [
            (256, 64)
        ] * 3


def test_layers_of_states_alone() -> None:
    """mamba-130m and mamba2-130m: 24 layers of 1,536 channels."""
    names = {"num_hidden_layers": 24, "hidden_size": 768, "conv_kernel": 4}
    first = read_architecture({"model_type": "mamba", **names, "state_size": 16})
    heads = {"num_heads": 24, "head_dim": 64, "n_groups": 1, "state_size": 128}
    second = read_architecture({"model_type": "mamba2", **names, **heads})
    shapes = {
        (one.recurrence, one.heads, one.head_dim, one.state_dim, one.conv_channels)
        for one in (*first.layers, *second.layers)
        if isinstance(one, Recurrent)
    }
    assert shapes == {("mamba1", 1, 1536, 16, 1536), ("mamba2", 24, 64, 128, 1536 + 256)}
    assert (len(first.layers), len(second.layers)) == (24, 24)


def test_the_thinker_of_an_omni_model() -> None:
    text = {"model_type": "qwen3_omni_moe_text", **GROUPED}
    config = {"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": text}}
    assert len(read_architecture(config).layers) == 4
    with pytest.raises(InvalidProblem, match=r"config.thinker_config.text_config.head_dim"):
        read_architecture({**config, "thinker_config": {"text_config": {**text, "head_dim": 0}}})


def test_shared_keys_and_values_are_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"use_cla: expected false"):
        read_architecture({"model_type": "hunyuan_v1_moe", **GROUPED, "use_cla": True})


M3: dict[str, Any] = {
    "model_type": "minimax_m3_vl_text",
    "num_hidden_layers": 60,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 524_288,
    "sparse_attention_config": {
        "sparse_index_dim": 128,
        "sparse_attention_freq": [0] * 3 + [1] * 57,
    },
}


@pytest.mark.parametrize(
    ("flags", "token_bytes"),
    [
        ("", 60 * 4 * 256 * 2 + 57 * 128 * 2),
        ("--tensor-parallel-size 8", 60 * 256 * 2 + 57 * 128 * 2),
        ("--kv-cache-dtype fp8", 60 * 4 * 256 + 57 * 128 * 2),
        ('--attention-config {"indexer_kv_dtype":"fp8"}', 60 * 4 * 256 * 2 + 57 * 128),
    ],
)
def test_minimax_m3_keeps_a_key_beside_its_heads(flags: str, token_bytes: int) -> None:
    """vllm/models/minimax_m3: one bf16 key of 128 elements a token in 57 layers, blocks of 128."""
    server = server_of(read_architecture(M3), settings(f"--available 40GiB {flags}"))
    assert {spec.block_tokens for spec in server.specs} == {128}
    assert server.layout.block_bytes(0) == 128 * token_bytes


@pytest.mark.parametrize("engine", ["sglang", "atom"])
def test_index_keys_beside_heads_are_refused_by_other_engines(engine: str) -> None:
    adapter = engine_named(engine)
    given = read_settings(adapter.FLAGS, ["--available", "40GiB"], {})
    with pytest.raises(InvalidProblem, match="index keys beside its heads"):
        adapter.build(read_architecture(M3), given)


def test_a_config_that_lists_its_indexers_is_believed() -> None:
    """transformers 5.19 saves which layers of GLM-5 own an indexer, and which share one."""
    shape = {"num_hidden_layers": 4, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    kinds = ["full", "shared", "shared", "full"]
    config = {"model_type": "glm_moe_dsa", **shape, "index_head_dim": 128, "indexer_types": kinds}
    layers = read_architecture(config).layers
    assert [one.index_dim for one in layers if isinstance(one, Latent)] == [128, 0, 0, 128]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "xlm-roberta"}, "an encoder keeps no cache"),
        ({"model_type": "clip", "text_config": {"model_type": "clip_text_model"}}, "an encoder"),
        ({"model_type": "t5"}, "a decoder, or Whisper"),
        ({"model_type": "novel", "is_encoder_decoder": True}, "a decoder, or Whisper"),
        ({"model_type": "recurrent_gemma"}, "states that an engine here serves"),
        ({"model_type": "mllama"}, r"after 0\.10\.2"),
        ({"model_type": "glm5_next"}, "no ring of keys"),
        ({"model_type": "gpt_neo"}, "Transformers backend"),
        ({"model_type": "gemma4_assistant"}, "a model by itself"),
        ({"model_type": "voxtral_realtime"}, "audio encoder"),
        ({"model_type": "cohere_asr"}, "other cross caches"),
        ({"model_type": "embedding_gemma2"}, "an encoder keeps no cache"),
    ],
)
def test_what_no_engine_serves_is_refused_with_the_reason(
    config: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidProblem, match=reason):
        read_architecture(config)
