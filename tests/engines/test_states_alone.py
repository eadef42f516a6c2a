"""Mamba without attention: tokens cost nothing, states alone are sized."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import engine_named
from kvplan.solver import plan

MAMBA = {
    "model_type": "mamba",
    "architectures": ["MambaForCausalLM"],
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 24,
    "hidden_size": 768,
    "intermediate_size": 1536,
    "conv_kernel": 4,
    "state_size": 16,
}


def figures(engine: str, *arguments: str, config: dict[str, Any] = MAMBA) -> dict[str, str]:
    adapter, architecture = engine_named(engine), read_architecture(config)
    common = {"gpu": None, "total_bytes": None, "weights_bytes": None}
    settings = read_settings(adapter.FLAGS, ("--available", "1GiB", *arguments), common)
    problem = adapter.build(architecture, settings)
    return dict(adapter.figures(architecture, settings, problem, plan(problem)))


def test_sglang_takes_a_context_of_tokens() -> None:
    """MemoryPoolConfigurator._zero_kv_max_tokens; get_context_length says 2048 of no config."""
    found = figures("sglang")
    slot = 24 * (1536 * 16 * 4 + 1536 * 3 * 2)
    slots = int((2**30 * 9 - slot * 19) // (slot * 19))  # the share 0.9/1.9 less a padding slot
    assert found["max_mamba_cache_size"] == str(slots)
    assert (found["max_total_num_tokens"], found["K size"]) == ("2048", "0.00 GB")
    assert found["max_running_requests"] == str(slots // 3)
    with pytest.raises(InvalidProblem, match="--context-length: expected at most 2048"):
        figures("sglang", "--context-length", "8192")
    more = figures("sglang", "--context-length", "8192", "--allow-longer-context")
    assert more["max_total_num_tokens"] == "8192"


@pytest.mark.parametrize("version", ["0.19.0", "0.25.1", "0.33.0"])
def test_vllm_allocates_all_that_is_available(version: str) -> None:
    """get_num_blocks: available // page // layers, whatever the request or the states need."""
    blocks = 2**30 // (24 * (1536 * 16 * 2 + 1536 * 3 * 2))
    flags = ("--max-model-len", "2048", "--engine-version", version)
    assert figures("vllm", *flags)["num_gpu_blocks"] == str(blocks)
    assert figures("vllm", *flags, "--max-num-seqs", "64")["num_gpu_blocks"] == str(blocks)
    override = figures("vllm", *flags, "--num-gpu-blocks-override", "70")
    assert override["num_gpu_blocks"] == "70"


def test_llamacpp_has_the_converters_context() -> None:
    assert figures("llama.cpp")["n_ctx"] == str(2**20)


def test_a_context_that_nobody_says() -> None:
    plain = {"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 512}
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **plain}
    with pytest.raises(InvalidProblem, match=r"^--ctx-size: expected tokens \(the config names no"):
        figures("llama.cpp", config=config)
