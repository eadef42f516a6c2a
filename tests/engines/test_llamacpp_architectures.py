"""llama.cpp's own list: which architectures it has, which slide, which keep indexer keys."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.llamacpp import FLAGS, build, figures
from kvplan.models.engines.llamacpp.architectures import ARCHITECTURES, BY_TYPE, known_as
from kvplan.models.engines.llamacpp.caches import state_cache
from kvplan.models.engines.registry import Settings
from kvplan.solver import oracle, plan
from support.shapes import CONFIGS, architecture

COMMON = {"max_position_embeddings": 32_768, "torch_dtype": "bfloat16", "vocab_size": 32_000}


def config(name: str, model_type: str, layers: int, heads: int, dim: int, **more: Any) -> Any:
    """A config of one geometry."""
    shape = {"num_hidden_layers": layers, "num_key_value_heads": heads, "head_dim": dim}
    named = {"architectures": [name], "model_type": model_type, "num_attention_heads": 40}
    return {**COMMON, **named, **shape, "hidden_size": 5120, **more}


def printed(known: Architecture, **given: Any) -> dict[str, str]:
    """What the engine prints; the oracle accepts the plan."""
    settings = Settings(FLAGS, {"available": 2**44, **given})
    problem = build(known, settings)
    answer = plan(problem)
    assert list(oracle.check(problem, answer)) == []
    return figures(known, settings, problem, answer)


WINDOW = {"sliding_window": 4096}
KINDS = ["sliding_attention", "full_attention"]
SLIDING = [
    # kept in full: the loader of these architectures knows no window
    (config("MistralForCausalLM", "mistral", 32, 8, 128, **WINDOW), "1024.00 MiB", False),
    (config("Phi3ForCausalLM", "phi3", 32, 32, 96, sliding_window=2047), "3072.00 MiB", False),
    (
        config(
            "Qwen2ForCausalLM",
            "qwen2",
            48,
            8,
            128,
            use_sliding_window=True,
            max_window_layers=24,
            **WINDOW,
        ),
        "1536.00 MiB",
        False,
    ),
    (
        config("Qwen3ForCausalLM", "qwen3", 4, 8, 128, layer_types=KINDS * 2, **WINDOW),
        "128.00 MiB",
        False,
    ),
    (config("MixtralForCausalLM", "mixtral", 32, 8, 128, **WINDOW), "1024.00 MiB", False),
    (config("Starcoder2ForCausalLM", "starcoder2", 32, 4, 128, **WINDOW), "512.00 MiB", False),
    # a window cache of pad256(4096 + 512) cells
    (
        config("Gemma2ForCausalLM", "gemma2", 26, 4, 256, **WINDOW),
        f"{13 * 4096 * (8192 + 4608) / 2**20:.2f} MiB",
        True,
    ),
    (
        config("Olmo3ForCausalLM", "olmo3", 4, 8, 128, layer_types=KINDS * 2, **WINDOW),
        f"{2 * 4096 * (8192 + 4608) / 2**20:.2f} MiB",
        True,
    ),
    # EXAONE-4 slides in the model of 64 layers alone
    (
        config("Exaone4ForCausalLM", "exaone4", 4, 8, 128, layer_types=KINDS * 2, **WINDOW),
        "128.00 MiB",
        False,
    ),
    (
        config("Exaone4ForCausalLM", "exaone4", 64, 8, 128, layer_types=KINDS * 32, **WINDOW),
        f"{32 * 4096 * (8192 + 4608) / 2**20:.2f} MiB",
        True,
    ),
]


@pytest.mark.parametrize(
    ("data", "total", "slides"), SLIDING, ids=[str(row[0]["model_type"]) for row in SLIDING]
)
def test_windows_follow_the_engine(data: dict[str, Any], total: str, slides: bool) -> None:
    lines = printed(read_architecture(data), ctx_size=8192)
    assert lines["KV total"] == total
    assert ("window cells" in lines) is slides


@pytest.mark.parametrize(
    ("model", "total", "index"),
    [
        ("GLM-5.2", "372.00 MiB", "21"),
        ("DeepSeek-V3.2", "335.50 MiB", "61"),
        ("DeepSeek-R1", "274.50 MiB", None),
    ],
)
def test_indexer_keys_have_a_cache(model: str, total: str, index: str | None) -> None:
    """ggml-org/llama.cpp#25407, #26474: keys of the K type for each layer that owns an indexer."""
    lines = printed(architecture(model), ctx_size=4096)
    assert (lines["KV total"], lines.get("index layers")) == (total, index)


def test_indexers_beside_heads_have_keys_and_unread_values() -> None:
    """MiniMax-M3 (llama-kv-cache-msa.cpp): one head of 128 + 128 values in each sparse layer."""
    data = {
        **COMMON,
        "model_type": "minimax_m3_vl_text",
        "architectures": ["MiniMaxM3SparseForCausalLM"],
        "num_hidden_layers": 60,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "sparse_attention_config": {
            "sparse_index_dim": 128,
            "sparse_attention_freq": [0] * 3 + [1] * 57,
        },
    }
    lines = printed(read_architecture(data), ctx_size=4096)
    assert lines["index layers"] == "57"
    assert lines["KV total"] == f"{4096 * 2 * 2 * (60 * 4 * 128 + 57 * 128) / 2**20:.2f} MiB"


@pytest.mark.parametrize(
    ("given", "cells", "streams"),
    [
        ({"ctx_size": 40_000}, ["768", "10240", "512", "10240"], 1),
        ({"ctx_size": 40_000, "parallel": 4}, ["768", "2560", "256", "2560"], 4),
        # sequences stay apart, each with the whole context
        (
            {"ctx_size": 40_000, "parallel": 2, "kv_unified": True},
            ["768", "10240", "512", "10240"],
            2,
        ),
    ],
)
def test_deepseek_v4_has_four_caches(given: dict[str, Any], cells: list[str], streams: int) -> None:
    """llama-kv-cache-dsv4.cpp: window + ubatch, and pad256(ceil(n_ctx_seq / ratio))."""
    lines = printed(architecture("DeepSeek-V4-Flash"), **given)
    names = ("window", "ratio 4", "ratio 128", "index")
    assert [lines[f"{name} cells"] for name in names] == cells
    assert {lines[f"{name} streams"] for name in names} == {str(streams)}
    assert [lines[f"{name} layers"] for name in names] == ["43", "21", "20", "21"]
    rows = [43 * 1024, 21 * 1024, 20 * 1024, 21 * 256]
    sizes = zip(cells, rows, strict=True)
    expected = sum(int(cell) * row for cell, row in sizes) * streams / 2**20
    assert lines["KV total"] == f"{expected:.2f} MiB"


def test_compressors_keep_sums_and_scores() -> None:
    """f32: 8 x 1024 and 8 x 256 for ratio 4, 128 x 512 for ratio 128; one set more a draft."""
    flash = architecture("DeepSeek-V4-Flash")
    cache = state_cache(flash, Settings(FLAGS, {"parallel": 3, "draft_max": 2}))
    assert cache is not None
    assert cache.recurrent_bytes == 8 * (21 * (8 * 1024 + 8 * 256) + 20 * 128 * 512)
    assert (cache.sequences, cache.rows) == (3, 3)


def test_an_architecture_that_the_engine_lacks_has_no_sizes() -> None:
    for name in ("MiniMaxText01ForCausalLM", "FooForCausalLM"):
        known = Architecture(name, "minimax_text_01", "bfloat16", (), 1, 4096)
        with pytest.raises(InvalidProblem, match="own list of architectures"):
            build(known, Settings(FLAGS, {"available": 2**34}))


def test_every_named_architecture_is_on_the_list() -> None:
    assert set(BY_TYPE.values()) <= set(ARCHITECTURES)
    names = {known_as(read_architecture(data)) for key, data in CONFIGS.items() if "01" not in key}
    assert names <= set(ARCHITECTURES)
