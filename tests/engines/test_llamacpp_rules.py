"""llama.cpp's rules one by one: contexts, windows, rows, states, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.models.engines.layers import Architecture, Attention
from kvplan.models.engines.llamacpp import FLAGS, build, figures
from kvplan.models.engines.llamacpp.caches import state_cache, token_caches
from kvplan.models.engines.llamacpp.flags import context_of
from kvplan.models.engines.registry import Settings
from kvplan.solver import oracle, plan
from support.shapes import architecture

FULL = [Attention(index, "full", 2, 128, 128) for index in range(2)]
WINDOWS = [Attention(index, "window", 4, 64, 64, window=1000) for index in range(2, 6)]
MODEL = Architecture("M", "gemma3", "float16", (*FULL, *WINDOWS), 6, 40_000)


def flags(**given: Any) -> Settings:
    """llama.cpp's flags."""
    return Settings(FLAGS, {"available": 2**40, **given})


def printed(model: Architecture, **given: Any) -> dict[str, str]:
    """What the engine prints; the oracle accepts the plan."""
    settings = flags(**given)
    problem = build(model, settings)
    answer = plan(problem)
    assert list(oracle.check(problem, answer)) == []
    return figures(model, settings, problem, answer)


@pytest.mark.parametrize(
    ("given", "total", "cells", "batch", "ubatch"),
    [
        ({"ctx_size": 1000}, 1024, 1024, 1000, 512),
        ({"ctx_size": 10_000, "parallel": 3}, 10_752, 3584, 2048, 512),
        ({"ctx_size": 10_000, "parallel": 3, "kv_unified": True}, 10_240, 10_240, 2048, 512),
        ({"ctx_size": 100, "ubatch_size": 512}, 256, 256, 100, 100),
        ({"ctx_size": 8192, "batch_size": 256, "ubatch_size": 0}, 8192, 8192, 256, 256),
        ({}, 40_192, 40_192, 2048, 512),
    ],
)
def test_sizes_of_a_context(
    given: dict[str, Any], total: int, cells: int, batch: int, ubatch: int
) -> None:
    found = context_of(MODEL, flags(**given))
    assert (found.total, found.cells, found.batch, found.ubatch) == (total, cells, batch, ubatch)


@pytest.mark.parametrize(
    ("given", "full", "window"),
    [
        ({"ctx_size": 8192}, 8192, 1536),  # pad256(1000 + 512)
        ({"ctx_size": 8192, "swa_full": True}, 8192, 8192),
        ({"ctx_size": 8192, "parallel": 4}, 2048, 1536),
        ({"ctx_size": 8192, "parallel": 4, "kv_unified": True}, 8192, 4608),  # pad256(4512)
        ({"ctx_size": 1024}, 1024, 1024),
        ({"ctx_size": 8192, "ubatch_size": 24}, 8192, 1024),  # 1000 + 24 is whole
        ({"ctx_size": 8192, "ubatch_size": 25}, 8192, 1280),
    ],
)
def test_cells_of_caches(given: dict[str, Any], full: int, window: int) -> None:
    lines = printed(MODEL, **given)
    assert (lines["full cells"], lines["window cells"]) == (str(full), str(window))
    assert [cache.cells for cache in token_caches(MODEL, flags(**given))] == [full, window]


def test_values_are_padded_to_the_widest_row_without_flash_attention() -> None:
    on, off = (token_caches(MODEL, flags(flash_attn=word)) for word in ("on", "off"))
    assert [cache.value_bytes for cache in on] == [2 * 512, 4 * 512]
    wide = Architecture("M", "gemma4", "float16", (*FULL, *WINDOWS[:1]), 3, 8192)
    wider = Attention(9, "full", 8, 128, 128)
    mixed = Architecture("M", "gemma4", "float16", (*wide.layers, wider), 10, 8192)
    padded = token_caches(mixed, flags(flash_attn="off"))
    assert [cache.value_bytes for cache in padded] == [3 * 2048, 2048]
    assert [cache.key_bytes for cache in padded] == [2 * 512 + 2048, 512]
    assert off[0].value_bytes == on[0].value_bytes


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        ("Qwen3.5-27B", 5),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 5),
        ("LFM2-1.2B", 5),
        ("Qwen3-Next-80B-A3B-Thinking", 1),
        ("granite-4.0-h-small", 1),
        ("Jamba-v0.1", 1),
    ],
)
def test_rows_that_may_be_taken_back(model: str, rows: int) -> None:
    cache = state_cache(architecture(model), flags(parallel=3, draft_max=4))
    assert cache is not None
    assert (cache.rows, cache.sequences) == (rows, 3)
    lines = printed(architecture(model), parallel=3, draft_max=4, ctx_size=4096)
    assert lines["RS cells"] == "3"


def test_unified_sequences_have_states_of_their_own() -> None:
    qwen = architecture("Qwen3.5-27B")
    apart, unified = (
        printed(qwen, parallel=4, ctx_size=8192, kv_unified=word) for word in (False, True)
    )
    assert apart["RS size"] == unified["RS size"] == "598.50 MiB"
    assert (unified["full cells"], unified["full streams"]) == ("8192", "1")


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("DeepSeek-R1", {"cache_type_k": "q8_0"}, "--cache-type-v: expected q8_0"),
        ("Qwen3-8B", {"cache_type_v": "q4_0", "flash_attn": "off"}, "--flash-attn"),
        ("Qwen3-8B", {"parallel": 0}, "--parallel: expected at least 1"),
        ("Qwen3-8B", {"available": None}, "--available, or --gpu"),
        ("MiniMax-Text-01", {}, "a class on llama.cpp's own list of architectures"),
    ],
)
def test_what_is_refused(model: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        build(architecture(model), flags(**given))


def test_heads_that_are_not_whole_blocks_are_refused() -> None:
    layers = (Attention(0, "full", 4, 80, 80),)
    phi = Architecture("Phi", "phi", "float16", layers, 1, 2048)
    with pytest.raises(InvalidProblem, match="whole blocks of 32 values"):
        build(phi, flags(cache_type_k="q8_0"))


def test_a_context_that_does_not_fit_has_no_plan() -> None:
    with pytest.raises(Infeasible):
        plan(build(architecture("Qwen3-8B"), flags(ctx_size=32_768, available=2**30)))
