"""Public reports on vLLM's caches as exact tests, each by its source, and bytes a token."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import pytest

from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.layers import Recurrent
from kvplan.models.engines.states import state_tensors
from kvplan.models.engines.vllm.figures import gib
from kvplan.models.engines.vllm.launch.server import server_of
from kvplan.solver import plan
from support.vllm_server import CONFIGS, TOKENS, architecture, served, settings, speculative

GIB = 2**30


def token_bytes(model: str, flags: str = "", *more: str) -> int:
    """Bytes that one more token takes in layers that keep every token."""
    given = settings(f"--available 1GiB --dtype bfloat16 {flags}", *more)
    specs = server_of(architecture(model), given).specs
    exact = sum((s.token_bytes for s in specs if s.kind in ("full", "mla")), Fraction(0))
    assert exact.denominator == 1
    return exact.numerator


@pytest.mark.parametrize(
    ("model", "flags", "expected"),
    [
        ("Meta-Llama-3.1-8B", "", 131_072),
        ("Qwen3-Next-80B-A3B-Thinking", "", 24_576),
        ("gpt-oss-120b", "", 36_864),
        ("Qwen3.6-27B-NVFP4", "", 65_536),
        ("Qwen3.6-35B-A3B-NVFP4", "", 20_480),
        ("Qwen3-8B", "--kv-cache-dtype fp8", 73_728),
        ("Qwen3-0.6B", "", 114_688),
        ("DeepSeek-R1", "", 70_272),
        ("Kimi-K3", "", 27_648),
        ("Kimi-K3", "--tensor-parallel-size 8", 27_648),
    ],
)
def test_bytes_a_token(model: str, flags: str, expected: int) -> None:
    """Figures of ROCm/ATOM#1959 (Kimi-K3: one latent for all heads, on every rank) and others."""
    assert token_bytes(model, flags) == expected


@pytest.mark.parametrize(("ranks", "expected"), [(8, 24_576), (16, 24_576)])
def test_llama_4_scout_takes_24_kib_a_token_and_replicates_heads_above_eight_ranks(
    ranks: int, expected: int
) -> None:
    """With every layer in full: 48 layers x one head x (128 + 128) x 2 B."""
    flags = f"--tensor-parallel-size {ranks} --disable-hybrid-kv-cache-manager"
    given = settings(f"--available 1GiB {flags}")
    layout = server_of(architecture("Llama-4-Scout-17B-16E-Instruct"), given).layout
    assert layout.block_bytes(0) == 16 * expected


@pytest.mark.parametrize(
    ("model", "state_dtype", "conv_dtype", "expected"),
    [
        ("Qwen3-Next-80B-A3B-Thinking", "float32", "bfloat16", 77_266_944),
        ("Qwen3.6-27B-NVFP4", "float32", "float32", 156_893_184),
    ],
)
def test_state_bytes_of_a_request(
    model: str, state_dtype: str, conv_dtype: str, expected: int
) -> None:
    """149.625 MiB for 27B, all in fp32 (lmstudio-ai/lmstudio-bug-tracker#1862)."""
    layers = [x for x in architecture(model).layers if isinstance(x, Recurrent)]
    tensors = [
        tensor
        for layer in layers
        for tensor in state_tensors(layer, 1, 0, conv_dtype=conv_dtype, state_dtype=state_dtype)
    ]
    assert sum(tensor.bytes for tensor in tensors) == expected


def test_an_mtp_layer_costs_as_much_as_any_other() -> None:
    """sgl-project/sglang#35566: 34,816 B a token with it, 6.25 % over 32,768."""
    fp8 = "--kv-cache-dtype fp8"
    assert token_bytes("Qwen3.6-27B-NVFP4", fp8) == 32_768
    assert token_bytes("Qwen3.6-27B-NVFP4", fp8, *speculative("mtp", 3)) == 34_816


def test_glm_5_keeps_79_latents_and_22_index_keys() -> None:
    """local-inference-lab/vllm#82: 79 x 656 + 22 x 132 with the MTP layer."""
    asked = token_bytes("GLM-5.2", "--kv-cache-dtype fp8", *speculative("mtp", 3))
    assert asked == 79 * 656 + 22 * 132 == 54_728


def test_nvfp4_keys_and_values() -> None:
    """kekzl/imp#108: 144 KiB become 40.5."""
    assert token_bytes("Qwen3-8B") == 144 * 1024
    assert token_bytes("Qwen3-8B", "--kv-cache-dtype nvfp4") * 2 == 81 * 1024


def test_gpt_oss_with_windows_in_full() -> None:
    """alvarobartt/hf-mem#60: 73,728 B a token, 78,384 tokens in 5.38 GiB (4,899 blocks)."""
    flags = "--engine-version 0.19.0 --disable-hybrid-kv-cache-manager --dtype bfloat16"
    for quota, blocks in ((4899 * 16 * 73_728, 4899), (4899 * 16 * 73_728 - 1, 4898)):
        more = f"--available {quota} --max-model-len 65536"
        figures, answer = served("gpt-oss-120b", f"{flags} {more}")
        assert answer.blocks["paged"] == blocks
        assert figures[TOKENS] == f"{blocks * 16:,} tokens"
    assert gib(4899 * 16 * 73_728) == "5.38"


def test_gemma_4_with_windows_in_full_is_told_a_short_length() -> None:
    """vllm-project/vllm-metal#505: 901,120 B a token, so 23,984 tokens in 20.13 GiB."""
    flags = "--engine-version 0.25.1 --disable-hybrid-kv-cache-manager --available 20.13GiB"
    said = vllm.refusal(architecture("Gemma-4-31B-IT-NVFP4"), settings(flags))
    assert said["the estimated maximum model length is"] == "23984"
    assert said["GiB KV cache is needed"] == "220.0"


GEMMA_26B = {
    **CONFIGS["Gemma-4-31B-IT-NVFP4"]["text_config"],
    "num_hidden_layers": 30,
    "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 5,
    "num_key_value_heads": 8,
    "num_global_key_value_heads": 2,
}


@pytest.mark.parametrize(
    ("dtype", "tokens", "concurrency"),
    [("fp8", 417_022, "12.73x"), ("fp8_per_token_head", 325_335, "9.93x")],
)
def test_scales_that_break_divisibility_cost_a_fifth(
    dtype: str, tokens: int, concurrency: str
) -> None:
    """vllm-project/vllm#40388: pages of 520 and 1,032 B no longer unify; 15.18 GiB, T = 8192.

    The GiB are printed to two decimals: the logged figures lie in what they stand for.
    """
    known = read_architecture(GEMMA_26B)
    found = []
    for quota in (ceil(Fraction("15.175") * GIB), floor(Fraction("15.185") * GIB)):
        flags = f"--kv-cache-dtype {dtype} --max-model-len 32768 --max-num-batched-tokens 4096"
        given = settings(f"{flags} --available {quota}")
        asked = vllm.build(known, given)
        figures = vllm.figures(known, given, asked, plan(asked))
        found.append(int(figures[TOKENS].split()[0].replace(",", "")))
        pools = {figures["Maximum concurrency for 32,768 tokens per request"]}
    assert found[0] <= tokens <= found[1]
    assert concurrency in pools
