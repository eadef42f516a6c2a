"""Bytes a token and a sequence of public models, as reports, logs and other planners have them."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines import atom, llamacpp, sglang, trtllm
from kvplan.models.engines.atom.entries import block_bytes
from kvplan.models.engines.layers import Architecture, Attention
from kvplan.models.engines.llamacpp.caches import state_cache, token_caches
from kvplan.models.engines.llamacpp.rows import ROW_TYPES, row_bytes, strata_token_bytes
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.cells import Cells, cells
from kvplan.models.engines.sglang.state_slots import slot_bytes
from support.shapes import architecture

GIB, MIB = 2**30, 2**20


def sglang_flags(**given: Any) -> Settings:
    """SGLang's flags."""
    return Settings(sglang.FLAGS, given)


def cell(model: str, **given: Any) -> Cells:
    """Bytes a token on the first stage."""
    return cells(architecture(model), sglang_flags(**given))[0]


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        ("Meta-Llama-3.1-8B", {}, 131_072),
        ("Qwen3-Next-80B-A3B-Thinking", {}, 24_576),
        ("Qwen3-Next-80B-A3B-Thinking", {"tp_size": 4}, 12_288),  # 2 heads: copied
        ("gpt-oss-120b", {}, 36_864),
        ("Qwen3.6-27B-NVFP4", {}, 65_536),
        ("Qwen3.5-35B-A3B", {}, 20_480),
        ("Qwen3-8B", {"kv_cache_dtype": "fp8_e4m3"}, 73_728),
        ("Qwen3-0.6B", {}, 114_688),
        ("Llama-4-Scout-17B-16E-Instruct", {"disable_hybrid_swa_memory": True}, 196_608),
        (
            "Llama-4-Scout-17B-16E-Instruct",
            {"disable_hybrid_swa_memory": True, "tp_size": 8},
            24_576,
        ),
        (
            "Llama-4-Scout-17B-16E-Instruct",
            {"disable_hybrid_swa_memory": True, "pp_size": 2},
            98_304,
        ),
        ("DeepSeek-R1", {}, 70_272),
        ("DeepSeek-R1", {"tp_size": 8}, 70_272),  # every rank has the latent
    ],
)
def test_bytes_a_token(model: str, given: dict[str, Any], expected: int) -> None:
    assert cell(model, **given).full == expected


@pytest.mark.parametrize(("ranks", "expected"), [(1, 77_266_944), (4, 77_266_944 // 4)])
def test_states_of_a_sequence(ranks: int, expected: int) -> None:
    """Qwen3-Next: 36 GDN layers, recurrent in fp32, conv in bf16."""
    qwen = architecture("Qwen3-Next-80B-A3B-Thinking")
    assert slot_bytes(qwen, sglang_flags(tp_size=ranks)) == expected


@pytest.mark.parametrize(("ranks", "gib"), [(1, "3.07196"), (4, "1.51799")])
def test_a_sequence_of_131072_tokens(ranks: int, gib: str) -> None:
    qwen = architecture("Qwen3-Next-80B-A3B-Thinking")
    settings = sglang_flags(tp_size=ranks)
    each = 131_072 * cells(qwen, settings)[0].full + slot_bytes(qwen, settings)
    assert f"{each / GIB:.5f}" == gib


def test_windows_of_a_sequence() -> None:
    """gpt-oss-120b: 18 windows of 128 tokens take 4.5 MiB."""
    assert 128 * cell("gpt-oss-120b").window == 4_718_592


@pytest.mark.parametrize(
    ("model", "given", "tokens", "expected"),
    [
        ("Qwen3.5-35B-A3B", {}, 131_141, "2.50"),  # FreeToken#401
        ("Qwen3-0.6B", {}, 556_202, "59.41"),  # sgl-project/sglang#39713: 59.4
        (
            "Llama-4-Scout-17B-16E-Instruct",
            {"disable_hybrid_swa_memory": True, "tp_size": 8},
            10_485_760,
            "240.00",
        ),
    ],
)
def test_pools_of_reports(model: str, given: dict[str, Any], tokens: int, expected: str) -> None:
    assert f"{tokens * cell(model, **given).full / GIB:.2f}" == expected


@pytest.mark.parametrize(
    ("hundredths", "given", "tokens"),
    [(8838, {"tp_size": 8}, 3_861_424), (2972, {"pp_size": 2}, 324_640)],
)
def test_tokens_of_scout_lie_in_the_printed_bytes(
    hundredths: int, given: dict[str, Any], tokens: int
) -> None:
    """Llama 4 Scout: 88.38 GiB at TP 8; 29.72 GiB on the smaller rank of two stages."""
    each = cell("Llama-4-Scout-17B-16E-Instruct", disable_hybrid_swa_memory=True, **given).full
    low, high = ((2 * hundredths + side) * GIB // 200 // each // 16 * 16 for side in (-1, 1))
    assert low <= tokens <= high


def test_blocks_of_a_report() -> None:
    """kekzl/imp#1631: 11,390 blocks of 16 tokens of Qwen3-8B in fp8 are 12,813.8 MiB."""
    each = 16 * cell("Qwen3-8B", kv_cache_dtype="fp8_e4m3").full
    assert f"{11_390 * each / MIB:.1f}" == "12813.8"


def llama_flags(**given: Any) -> Settings:
    """llama.cpp's flags."""
    return Settings(llamacpp.FLAGS, given)


@pytest.mark.parametrize(("sequences", "mib"), [(1, "149.625"), (4, "598.500")])
def test_states_in_fp32(sequences: int, mib: str) -> None:
    """lmstudio-bug-tracker#1862: Qwen3.6-27B, 598.5 MiB for four sequences."""
    settings = llama_flags(ctx_size=4096, parallel=sequences)
    cache = state_cache(architecture("Qwen3.6-27B-NVFP4"), settings)
    assert cache is not None
    assert f"{cache.bytes / MIB:.3f}" == mib


@pytest.mark.parametrize(
    ("setting", "expected"), [("int8", 12_672), ("k8v4", 9_792), ("q4_0", 6_912)]
)
def test_strata_bytes_a_token(setting: str, expected: int) -> None:
    """Niko1221/Strata #765: 12 layers of 2 heads of 256."""
    assert strata_token_bytes(setting, 12, 2, 256) == expected


@pytest.mark.parametrize(("setting", "gib"), [("int8", "6.19"), ("q4_0", "3.38")])
def test_strata_pools(setting: str, gib: str) -> None:
    assert f"{524_288 * strata_token_bytes(setting, 12, 2, 256) / GIB:.2f}" in (
        gib,
        "3.37",  # 3.375, which Strata rounds up
    )


@pytest.mark.parametrize(
    ("word", "expected"), [("f16", 512), ("q8_0", 272), ("q4_0", 144), ("q5_1", 192), ("f32", 1024)]
)
def test_bytes_of_a_row(word: str, expected: int) -> None:
    assert row_bytes(word, 256) == expected


def test_a_row_is_whole_blocks() -> None:
    with pytest.raises(InvalidProblem, match="whole blocks of 32 values for q8_0"):
        row_bytes("q8_0", 80)
    with pytest.raises(InvalidProblem, match="f32, f16, bf16"):
        row_bytes("q9", 256)
    assert set(ROW_TYPES) >= {"q8_0", "q4_0", "f16"}


@pytest.mark.parametrize(("key", "value"), [("q8_0", "q4_0"), ("f16", "q8_0")])
def test_mixed_types_are_counted_apart(key: str, value: str) -> None:
    layers = tuple(Attention(index, "full", 2, 256, 256) for index in range(12))
    model = Architecture("X", "llama", "float16", layers, 12, 8192)
    (cache,) = token_caches(model, llama_flags(cache_type_k=key, cache_type_v=value))
    assert cache.key_bytes == 12 * row_bytes(key, 512)
    assert cache.value_bytes == 12 * row_bytes(value, 512)


def test_scales_of_four_bit_keys_and_values() -> None:
    """kekzl/imp#108: an 8B model of 36 layers takes 40.5 KiB a token in nvfp4, not 36."""
    settings = Settings(trtllm.FLAGS, {"available": GIB, "kv_cache_dtype": "nvfp4"})
    problem = trtllm.build(architecture("Qwen3-8B"), settings)
    block = sum(
        buffer.bytes
        for pool in problem.pools
        for buffer in pool.layout
        if isinstance(buffer.bytes, int)
    )
    assert block == 32 * 41_472
    assert 41_472 == 40.5 * 1024


def test_one_lane_of_a_latent() -> None:
    """ROCm/ATOM#1959: 24 latent layers of Kimi-K3 are 27 KiB a token in bf16."""
    settings = Settings(atom.FLAGS, {"block_size": 1})
    assert block_bytes(architecture("Kimi-K3"), settings) == 27_648
