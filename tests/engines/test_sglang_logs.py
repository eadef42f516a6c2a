"""SGLang's start-up logs: sizes to the printed decimals, and both ratio splits."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.engines.layers import Architecture, Attention
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang import FLAGS, build, figures
from kvplan.models.engines.sglang.budget import rank_entry, rest_bytes
from kvplan.models.engines.sglang.cells import cells, stage_bounds
from kvplan.models.engines.sglang.state_slots import slot_bytes
from kvplan.solver import plan
from support.shapes import architecture

GIB = 2**30
QWEN27 = "Qwen3.5-27B"


def flags(**given: Any) -> Settings:
    """SGLang's flags."""
    return Settings(FLAGS, given)


def printed(model: Architecture, **given: Any) -> dict[str, str]:
    """Figures of the log with these flags."""
    settings = flags(**given)
    problem, answer = sized(model, settings)
    return figures(model, settings, problem, answer)


def sized(model: Architecture, settings: Settings) -> tuple[Problem, Plan]:
    """Problem and plan of a model and flags."""
    problem = build(model, settings)
    return problem, plan(problem)


@pytest.mark.parametrize(
    ("model", "tokens", "given", "size"),
    [
        ("Qwen3-235B-A22B", 367_404, {"tp_size": 4}, "8.23 GB"),  # vllm-project/vllm#21348
        ("Qwen3-0.6B", 556_202, {}, "29.70 GB"),  # sgl-project/sglang#39713
        ("gpt2", 248_479, {}, "4.27 GB"),  # kvcached
        (QWEN27, 330_323, {"max_mamba_cache_size": 124}, "10.08 GB"),
        # noonghunna/club-3090#1261
        (
            QWEN27,
            454_112,
            {"tp_size": 2, "kv_cache_dtype": "fp8_e4m3", "max_mamba_cache_size": 124},
            "3.46 GB",
        ),
    ],
)
def test_keys_have_the_logged_size(
    model: str, tokens: int, given: dict[str, Any], size: str
) -> None:
    lines = printed(architecture(model), available=2**40, max_total_tokens=tokens, **given)
    assert (lines["#tokens"], lines["K size"], lines["V size"]) == (str(tokens), size, size)


def test_a_dense_model_at_tp4_has_the_logged_size() -> None:
    """Qwen2 of 64 layers, 8 KV heads of 128: 46,611 tokens are 1.42 GB of keys."""
    layers = tuple(Attention(index, "full", 8, 128, 128) for index in range(64))
    qwen = Architecture("Qwen2ForCausalLM", "qwen2", "bfloat16", layers, 64, 32768)
    lines = printed(qwen, available=2**40, max_total_tokens=46_611, tp_size=4)
    assert lines["K size"] == "1.42 GB"


@pytest.mark.parametrize(("tokens", "size"), [(975_424, "43.67 GB"), (1_462_784, "65.49 GB")])
def test_the_indexer_is_counted(tokens: int, size: str) -> None:
    """sgl-project/sglang#11309: 43.67 GB logged; 65.49 read off the card when 54.52 was logged."""
    lines = printed(
        architecture("DeepSeek-V3.2"),
        available=2**40,
        max_total_tokens=tokens,
        kv_cache_dtype="fp8_e4m3",
        page_size=64,
    )
    assert lines["KV size"] == size


def test_states_and_tokens_of_a_log_follow_from_one_budget() -> None:
    """Qwen3.x-27B on one H100: 124 slots, 0.34 and 17.58 GB of states, 330,323 tokens."""
    qwen = architecture(QWEN27)
    slot, cell = slot_bytes(qwen, flags()), cells(qwen, flags())[0].full
    lines = printed(qwen, available=125 * slot + 330_323 * cell)
    assert lines["max_mamba_cache_size"] == "124"
    assert lines["max_total_num_tokens"] == "330323"
    assert (lines["conv_state size"], lines["ssm_state size"]) == ("0.34GB", "17.58GB")
    assert lines["KV Cache is allocated. #tokens"] == ("330323, K size: 10.08 GB, V size: 10.08 GB")
    # extra buffers: the engine counts 5 slots a request (engine default of this class)
    assert lines["max_running_requests"] == str(124 // 5)


def test_window_tokens_are_a_share_of_the_full_ones() -> None:
    """sgl-project/sglang#18039: 375,360 full and 300,288 window tokens, pages of 64."""
    model = architecture("gpt-oss-120b")
    cell = cells(model, flags())[0]
    exact = 375_360 * cell.full + 300_288 * cell.window
    lines = printed(model, available=exact, page_size=64)
    assert (lines["full_layer_tokens"], lines["swa_layer_tokens"]) == ("375360", "300288")
    less = printed(model, available=exact - 1, page_size=64)
    assert less["full_layer_tokens"] == str(375_360 - 64)


def test_readings_make_the_budget() -> None:
    """A DeepSeek-V4 log: 57.01 GB free after the load, 93.58 before, share 0.6: 19.58 GB."""
    before, after = 9358 * GIB // 100, 5701 * GIB // 100
    settings = flags(free_before_load=before, free_after_load=after, mem_fraction_static="0.6")
    assert round(rest_bytes(settings) * 100 / GIB) == 1958


def test_a_card_and_weights_make_an_estimate_that_says_so() -> None:
    settings = Settings(FLAGS, {"total_bytes": 80 * GIB, "weights_bytes": 16 * GIB})
    memory = rank_entry(settings)["memory"]
    assert [*memory["other"]] == [
        "weights",
        "context (estimated)",
        "activations and graphs (estimated)",
    ]
    # 512 + 1.5 x 8192 + 128 MiB; on cards above 60 GiB at least 10 GiB
    assert memory["other"]["activations and graphs (estimated)"] == 12_928 * 2**20
    (rank,) = plan(build(architecture("Meta-Llama-3.1-8B"), settings)).ranks
    named = [line.consumer for line in rank.ledger if "(estimated)" in line.consumer]
    assert len(named) == 2


def test_no_budget_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="--available, or --free-before-load"):
        build(architecture("Meta-Llama-3.1-8B"), flags())


def test_stages_take_the_last_layers_that_are_over() -> None:
    assert [high - low for low, high in stage_bounds(93, 8)] == [11, 11, 11, 12, 12, 12, 12, 12]


def test_the_smallest_stage_rules() -> None:
    """95 layers in two stages are 47 and 48: tokens follow from the wider one."""
    layers = tuple(Attention(index, "full", 8, 128, 128) for index in range(95))
    model = Architecture("LlamaForCausalLM", "llama", "bfloat16", layers, 95, 8192)
    lines = printed(model, available=48 * 4096 * 1000 + 48 * 4096 - 1, pp_size=2)
    assert lines["max_total_num_tokens"] == "1000"


def test_windows_of_a_class_that_is_not_listed_are_held_in_full() -> None:
    """sgl-project/sglang#39308: the window pool is for listed classes alone."""
    oss = architecture("gpt-oss-120b")
    (apart,) = cells(oss, flags())
    (full,) = cells(oss, flags(disable_hybrid_swa_memory=True))
    assert (apart.full, apart.window, full.full, full.window) == (36_864, 36_864, 73_728, 0)
    gemma = architecture("gemma-3-27b-it")
    assert cells(gemma, flags())[0].window == 0


SPECULATION = {
    "speculative_algorithm": "EAGLE",
    "speculative_draft_layers": 1,
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 8,
}


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        # requests x (window + eviction interval x drafts + page + decode) + chunks + page
        ({}, 16 * (128 + 128 + 64 + 64) + 2 * 4096 + 64),
        ({"disable_overlap_schedule": True}, 16 * (128 + 128 + 64 + 64) + 4096 + 64),
        ({"swa_eviction_interval": 1}, 16 * (128 + 1 + 64 + 64) + 2 * 4096 + 64),
        # a step of 3 x 4 draft tokens, in pages of its own a branch; twice with overlap
        (SPECULATION, 16 * (128 + 128 * 8 + 64 + 2 * 128 * 4) + 2 * 4096 + 64),
        (
            {**SPECULATION, "disable_overlap_schedule": True},
            16 * (128 + 128 * 8 + 64 + 128 * 4) + 4096 + 64,
        ),
        ({"dp_size": 2, "enable_dp_attention": True, "tp_size": 2}, 8 * 384 + 2 * 4096 + 64),
    ],
)
def test_window_tokens_of_the_request_cap(given: dict[str, Any], tokens: int) -> None:
    """compute_swa_request_cap of 0.5.23, without the radix cache."""
    cap = {"disable_radix_cache": True, "max_running_requests": 16, "chunked_prefill_size": 4096}
    lines = printed(architecture("gpt-oss-120b"), available=2**36, page_size=64, **cap, **given)
    assert lines["swa_layer_tokens"] == str(-(-tokens // 64) * 64)


def test_a_limit_of_tokens_cuts_the_cap_short() -> None:
    given = {"disable_radix_cache": True, "max_running_requests": 256, "page_size": 64}
    oss = architecture("gpt-oss-120b")
    lines = printed(oss, available=2**36, max_total_tokens=20_000, **given)
    assert (lines["full_layer_tokens"], lines["swa_layer_tokens"]) == ("19968", "20000")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"swa_full_tokens_ratio": 2}, "--swa-full-tokens-ratio"),
        ({"speculative_algorithm": "DFLASH"}, "--speculative-algorithm"),
        ({"speculative_algorithm": "EAGLE"}, "--speculative-draft-layers"),
        ({"max_total_tokens": 3, "page_size": 16}, "--max-total-tokens"),
        ({"tp_size": 0}, "--tp-size"),
        ({"page_size": 0}, "--page-size"),
        ({"dp_size": 3, "enable_dp_attention": True}, "--dp-size"),
    ],
)
def test_bad_flags_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        build(architecture("gpt-oss-120b"), flags(available=2**34, **given))
