"""Public reports that an adapter covers, by their source."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Plan, Problem
from kvplan.models.engines import atom, llamacpp, sglang
from kvplan.models.engines.atom.flags import stage_layers
from kvplan.models.engines.layers import Architecture, Attention, Latent
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.cells import cells
from kvplan.models.engines.sglang.state_slots import slot_bytes
from kvplan.models.engines.trtllm import FLAGS as TRTLLM_FLAGS
from kvplan.models.engines.trtllm.adapter import quota_of
from kvplan.solver import plan
from support.shapes import architecture

GIB, MIB = 2**30, 2**20


def printed(adapter: Any, model: Architecture, **given: Any) -> dict[str, str]:
    """What an engine prints with these flags."""
    settings = Settings(adapter.FLAGS, given)
    problem: Problem = adapter.build(model, settings)
    answer: Plan = plan(problem)
    lines: dict[str, str] = adapter.figures(model, settings, problem, answer)
    return lines


@pytest.mark.parametrize(
    ("slots", "asked", "running"),
    [(47, 32, 9), (55, 8, 8), (33, 8, 6), (21, 8, 4), (8, 8, 1), (40, 40, 8)],
)
def test_running_requests_are_slots_by_slots_a_request(
    slots: int, asked: int, running: int
) -> None:
    """sgl-project/sglang#38846, noonghunna/club-3090#1323, jpezzulli/sglang-rtxpro6000#5."""
    given = {"available": 2**37, "mamba_radix_cache_strategy": "extra_buffer"}
    more = {"max_mamba_cache_size": slots, "max_running_requests": asked}
    lines = printed(sglang, architecture("Qwen3.6-27B-NVFP4"), **given, **more)
    assert lines["max_running_requests"] == str(running)


def test_built_in_drafts_keep_every_token() -> None:
    """sgl-project/sglang#35566: one MTP layer is 2,048 of 34,816 bytes a token."""
    qwen, given = architecture("Qwen3.6-27B-NVFP4"), {"kv_cache_dtype": "fp8_e4m3"}
    (without,) = cells(qwen, Settings(sglang.FLAGS, given))
    speculation = {"speculative_algorithm": "NEXTN"}
    (drafted,) = cells(qwen, Settings(sglang.FLAGS, given | speculation))
    assert (without.full, drafted.full) == (32_768, 34_816)
    assert [GIB // cell.full for cell in (without, drafted)] == [32_768, 30_840]


def test_a_stage_pays_for_its_own_states() -> None:
    """sgl-project/sglang#33666: Kimi-K3 at PP 8 had 26 slots; 199 to 206 fit the same bytes."""
    kimi = architecture("Kimi-K3")
    whole = slot_bytes(kimi, Settings(sglang.FLAGS, {"tp_size": 8}))
    stage = slot_bytes(kimi, Settings(sglang.FLAGS, {"tp_size": 8, "pp_size": 8}))
    assert stage * 69 == whole * 9
    assert (26 * whole // stage, (27 * whole - 1) // stage) == (199, 206)


@pytest.mark.parametrize(
    ("tokens", "expected"), [(975_424, 46_886_680_832), (1_462_784, 70_313_101_312)]
)
def test_the_indexer_has_a_cache_of_its_own(tokens: int, expected: int) -> None:
    """sgl-project/sglang#11309: 656 and 132 bytes a token of 61 layers."""
    settings = Settings(sglang.FLAGS, {"kv_cache_dtype": "fp8_e4m3", "page_size": 64})
    (cell,) = cells(architecture("DeepSeek-V3.2"), settings)
    assert cell.full == 61 * (656 + 132)
    assert tokens * cell.full == expected


def test_drafts_own_an_indexer() -> None:
    """local-inference-lab/vllm#82: 78 + 1 latents of 656 and 21 + 1 index keys: 54,728 bytes."""
    given = {"kv_cache_dtype": "fp8_e4m3", "speculative_algorithm": "EAGLE", "page_size": 64}
    (cell,) = cells(architecture("GLM-5.2"), Settings(sglang.FLAGS, given))
    assert cell.full == 54_728


def test_owners_of_index_keys_by_stage() -> None:
    """ROCm/ATOM#1858: 21 of 78 layers own an indexer, 7, 5, 5 and 4 of 20, 20, 19 and 19."""
    glm = architecture("GLM-5.2")
    given = {"pipeline_parallel_size": 4, "pp_layer_partition": "20,20,19,19"}
    stages = stage_layers(glm, Settings(atom.FLAGS, given))
    owners = [
        sum(isinstance(layer, Latent) and layer.index_dim > 0 for layer in stage)
        for stage in stages
    ]
    assert owners == [7, 5, 5, 4]


@pytest.mark.parametrize(("blocks", "fits"), [(1000, 1), (782, 1), (781, 0)])
def test_a_rank_holds_its_share_of_a_sequence(blocks: int, fits: int) -> None:
    """ROCm/ATOM#2040: 100,000 tokens in blocks of 16 are 782 of 6,250 blocks on one of 8 ranks."""
    kimi = architecture("Meta-Llama-3.1-8B")
    given = {"decode_context_parallel_size": 8, "max_model_len": 100_000}
    each = atom.build(kimi, Settings(atom.FLAGS, {**given, "available": (GIB,)})).pools[0]
    assert isinstance(each.bytes, dict)
    lines = printed(atom, kimi, **given, available=(blocks * each.bytes["0"],))
    assert lines["num_kvcache_blocks"] == str(blocks)
    assert lines["max_concurrent at 100%"] == str(fits)


def test_a_latent_in_q8_0() -> None:
    """ikawrakow/ik_llama.cpp#296: DeepSeek-V3, 32,768 tokens: 1166.62 MiB, no values."""
    given = {"ctx_size": 32_768, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}
    lines = printed(llamacpp, architecture("DeepSeek-R1"), **given, available=2**40)
    assert (lines["full K"], lines["full V"]) == ("1166.62 MiB", "0.00 MiB")


@pytest.mark.parametrize(
    ("full", "cells_", "mib"), [(True, 4096, "160.00 MiB"), (False, 1536, "60.00 MiB")]
)
def test_cells_of_a_window(full: bool, cells_: int, mib: str) -> None:
    """qualcomm/GenieX#1346: window 512 and micro-batch 1024 are 1,536 cells, not 4,096."""
    layers = tuple(Attention(index, "window", 2, 256, 256, window=512) for index in range(20))
    model = Architecture("Gemma", "gemma", "float16", layers, 20, 4096)
    given = {"ctx_size": 4096, "ubatch_size": 1024, "swa_full": full, "available": 2**40}
    lines = printed(llamacpp, model, **given)
    assert (lines["window cells"], lines["window size"]) == (str(cells_), mib)


@pytest.mark.parametrize(
    ("context", "expected"),
    [(4096, 398_458_880), (8192, 482_344_960), (32768, 985_661_440), (131072, 2_998_927_360)],
)
def test_windows_with_head_sizes_of_their_own(context: int, expected: int) -> None:
    """ollama/ollama#16958: gemma-4-26B, 25 windows of 1,024 tokens beside 5 full layers."""
    windows = [Attention(i, "window", 8, 256, 256, window=1024) for i in range(25)]
    full = [Attention(25 + i, "full", 2, 512, 512) for i in range(5)]
    model = Architecture("Gemma4", "gemma4_text", "float16", (*windows, *full), 30, 131072)
    settings = Settings(llamacpp.FLAGS, {"ctx_size": context, "available": 2**40})
    problem = llamacpp.build(model, settings)
    (rank,) = plan(problem).ranks
    assert rank.used == expected


@pytest.mark.parametrize("gib", [0, 1, 20, 60])
def test_the_share_is_of_what_is_free(gib: int) -> None:
    """ai-dynamo/aiconfigurator#1201: of 60 GiB free TensorRT-LLM takes 0.9, 54 GiB."""
    assert quota_of(Settings(TRTLLM_FLAGS, {"free": gib * GIB})) == gib * GIB * 9 // 10


def test_window_pools_lose_less_than_a_page() -> None:
    """sgl-project/sglang#18039: 5,865 and 4,692 pages; less than a page of each stays unused."""
    oss, page = architecture("gpt-oss-120b"), 64
    (cell,) = cells(oss, Settings(sglang.FLAGS, {}))
    spare = (cell.full * 5 + cell.window * 4) * page // 5
    available = 64 * (5865 * cell.full + 4692 * cell.window)
    for extra in (0, spare):
        lines = printed(sglang, oss, page_size=page, available=available + extra)
        assert int(lines["full_layer_tokens"]) // page == 5865
        assert int(lines["swa_layer_tokens"]) // page == 4692
    lines = printed(sglang, oss, page_size=page, available=available + spare + 1)
    assert int(lines["full_layer_tokens"]) // page == 5866


def test_states_are_part_of_the_quota() -> None:
    """ROCm/ATOM#1164: 1,024 state slots of V4-Pro are charged before a block is."""
    pro = architecture("DeepSeek-V4-Pro")
    entry = atom.build(pro, Settings(atom.FLAGS, {"available": (GIB,)})).pools[0].bytes
    assert isinstance(entry, int)
    blocks = []
    for sequences in (1024, 512):
        lines = printed(atom, pro, max_num_seqs=sequences, available=(120 * GIB,))
        blocks.append(int(lines["num_kvcache_blocks"]))
        assert lines["state entries"] == str(sequences)
    each = int(lines["block_bytes"])
    assert abs((blocks[1] - blocks[0]) * each - 512 * entry) < each
    assert (120 * GIB - 1024 * entry) // each == blocks[0]
