"""What SGLang 0.5.23 derives where a launch line says little, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang import FLAGS, assumptions, build, figures, refusal
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.solver import plan
from support.shapes import architecture

GIB = 2**30
QWEN = "Qwen3.5-27B"


def resolved(model: str, **given: Any) -> Settings:
    return resolve(architecture(model), Settings(FLAGS, {"available": 2**36, **given}))


def printed(model: str, **given: Any) -> dict[str, str]:
    """Figures of the log with these flags."""
    known, settings = architecture(model), Settings(FLAGS, given)
    problem = build(known, settings)
    return figures(known, settings, problem, plan(problem))


@pytest.mark.parametrize(
    ("model", "given", "strategy", "overlap"),
    [
        (QWEN, {}, "extra_buffer", True),
        ("Qwen3-Next-80B-A3B-Thinking", {}, "extra_buffer", True),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {}, "extra_buffer", True),
        ("Kimi-K3", {}, "extra_buffer", True),
        # nothing to overlap with, pages of one token: the plain strategy
        (QWEN, {"disable_overlap_schedule": True}, "no_buffer", False),
        (QWEN, {"disable_overlap_schedule": True, "page_size": 16}, "extra_buffer", False),
        (QWEN, {"pp_size": 2}, "extra_buffer", False),
        (QWEN, {"disable_radix_cache": True}, "auto", True),
        (QWEN, {"mamba_radix_cache_strategy": "extra_buffer_lazy"}, "extra_buffer_lazy", True),
    ],
)
def test_the_strategy_of_the_radix_cache(
    model: str, given: dict[str, Any], strategy: str, overlap: bool
) -> None:
    found = resolved(model, **given)
    assert found["mamba_radix_cache_strategy"] == strategy
    assert found["disable_overlap_schedule"] is not overlap


def test_requests_of_a_bare_launch_have_five_slots_each() -> None:
    lines = printed(QWEN, available=40 * GIB)
    assert lines["max_running_requests"] == "26"
    plain = printed(
        QWEN,
        available=40 * GIB,
        mamba_radix_cache_strategy="no_buffer",
        disable_overlap_schedule=True,
    )
    assert plain["max_running_requests"] == "43"
    (_, line) = assumptions(architecture(QWEN), Settings(FLAGS, {"available": 40 * GIB}))
    expected = "auto -> extra_buffer, 5 slots a request (SGLang 0.5.23)"
    assert line == f"--mamba-radix-cache-strategy: {expected}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mamba_radix_cache_strategy": "no_buffer"}, "--disable-overlap-schedule beside"),
        (
            {
                "mamba_radix_cache_strategy": "no_buffer",
                "disable_overlap_schedule": True,
                "page_size": 64,
            },
            "--page-size: expected 1 with no_buffer",
        ),
        (
            {"mamba_radix_cache_strategy": "extra_buffer_lazy", "disable_overlap_schedule": True},
            "extra_buffer without overlapped batches",
        ),
    ],
)
def test_strategies_that_the_engine_refuses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        resolved(QWEN, **given)


@pytest.mark.parametrize(
    ("model", "gpu", "page"),
    [
        ("Meta-Llama-3.1-8B", None, 1),
        ("Meta-Llama-3.1-8B", "H100-80GB", 1),
        ("Meta-Llama-3.1-8B", "B200", 64),
        ("Meta-Llama-3.1-8B", "RTX 5090", 1),
        ("gpt-oss-120b", "B200", 64),
        ("gpt-oss-120b", "L40S", 1),
        (QWEN, "B200", 64),
        (QWEN, "H200", 1),
        ("DeepSeek-R1", "B200", 64),
        ("DeepSeek-R1", "H200", 1),
        ("Kimi-K2-Instruct", "H200", 1),
        ("DeepSeek-V3.2", "H200", 64),
        ("GLM-5.2", "MI300X", 64),
        ("DeepSeek-V4-Flash", "H200", 256),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "B200", 64),
    ],
)
def test_pages_by_model_and_card(model: str, gpu: str | None, page: int) -> None:
    assert resolved(model, gpu=gpu)["page_size"] == page


@pytest.mark.parametrize(
    ("given", "page"),
    [
        ({"attention_backend": "flashmla"}, 64),
        ({"decode_attention_backend": "trtllm_mla", "page_size": 32}, 32),
        ({"attention_backend": "trtllm_mla", "page_size": 16}, 64),
        ({"attention_backend": "trtllm_mha", "page_size": 128}, 128),
        ({"attention_backend": "triton", "page_size": 16}, 16),
    ],
)
def test_a_named_backend_changes_a_page_that_it_does_not_take(
    given: dict[str, Any], page: int
) -> None:
    assert resolved("DeepSeek-R1", gpu="B200", **given)["page_size"] == page


@pytest.mark.parametrize(
    ("gpu", "given", "row"),
    [
        # fp8 rows are plain on Blackwell (trtllm), with scales on Hopper (flashmla_kv)
        ("B200", {"kv_cache_dtype": "fp8_e4m3"}, 576),
        ("H200", {"kv_cache_dtype": "fp8_e4m3"}, 656),
        ("RTX PRO 6000", {"kv_cache_dtype": "fp8_e4m3"}, 656),
        ("MI300X", {"kv_cache_dtype": "fp8_e4m3"}, 576),
        ("H200", {"kv_cache_dtype": "fp8_e4m3", "dsa_decode_backend": "trtllm"}, 576),
        ("B200", {}, 576),
        ("H200", {}, 1152),
        (None, {"kv_cache_dtype": "fp8_e4m3"}, 656),
    ],
)
def test_rows_of_sparse_attention_by_card(gpu: str | None, given: dict[str, Any], row: int) -> None:
    """GLM-5.2: 78 rows and 21 indexer keys of 132 bytes a token."""
    lines = printed("GLM-5.2", available=1334 * GIB // 10, gpu=gpu, tp_size=4, **given)
    tokens = 1334 * GIB // 10 // (78 * row + 21 * 132)
    assert lines["max_total_num_tokens"] == str(tokens // 64 * 64)


def test_the_indexer_takes_two_element_types() -> None:
    with pytest.raises(InvalidProblem, match="auto, bfloat16 or fp8_e4m3"):
        resolved("GLM-5.2", kv_cache_dtype="fp8_e5m2")


@pytest.mark.parametrize(
    ("model", "given", "parameters"),
    [
        (QWEN, {"speculative_algorithm": "NEXTN"}, (3, 1, 4, 48)),
        ("Meta-Llama-3.1-8B", {"speculative_algorithm": "EAGLE3"}, (5, 4, 8, 48)),
        ("Meta-Llama-3.1-8B", {"speculative_algorithm": "STANDALONE"}, (3, 1, 4, 48)),
        ("Meta-Llama-3.1-8B", {"speculative_algorithm": "NGRAM"}, (1, 10, 12, 48)),
        (
            QWEN,
            {
                "speculative_algorithm": "eagle",
                "speculative_num_steps": 2,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": 8,
                "max_running_requests": 7,
            },
            (2, 1, 3, 7),
        ),
        (
            "Meta-Llama-3.1-8B",
            {"speculative_algorithm": "DFLASH", "speculative_dflash_block_size": 8},
            (1, 1, 8, 48),
        ),
    ],
)
def test_speculation_fills_in_its_parameters(
    model: str, given: dict[str, Any], parameters: tuple[int, ...]
) -> None:
    found = resolved(model, **given)
    keys = ("num_steps", "eagle_topk", "num_draft_tokens")
    values = tuple(found[f"speculative_{key}"] for key in keys)
    assert (*values, found["max_running_requests"]) == parameters


def draft(folder: Path, layers: int) -> str:
    path = folder / "config.json"
    shape = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64}
    config = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": layers, **shape}
    path.write_text(json.dumps({**config, "dflash_config": {"block_size": 16}}))
    return str(path)


def test_a_draft_of_another_shape_is_charged_as_its_own(tmp_path: Path) -> None:
    """DFLASH: 5 layers of 4 heads of 64; an EAGLE3 draft counts as layers of the target."""
    given = {"available": 2**34, "speculative_draft_model_path": draft(tmp_path, 5)}
    lines = printed("Meta-Llama-3.1-8B", speculative_algorithm="DFLASH", **given)
    target = 32 * 8 * 256 * 2
    assert lines["max_total_num_tokens"] == str(2**34 // (target + 5 * 4 * 128 * 2))
    lines = printed("Meta-Llama-3.1-8B", speculative_algorithm="EAGLE3", **given)
    assert lines["max_total_num_tokens"] == str(2**34 // (target + target * 5 // 32))
    ngram = printed("Meta-Llama-3.1-8B", speculative_algorithm="NGRAM", available=2**34)
    assert ngram["max_total_num_tokens"] == str(2**34 // target)


@pytest.mark.parametrize("word", ["DSPARK", "UNO", "MEDUSA"])
def test_an_algorithm_that_is_not_modelled_is_named(word: str) -> None:
    with pytest.raises(InvalidProblem, match=f"NGRAM, DFLASH, got '{word}'"):
        resolved(QWEN, speculative_algorithm=word)


DRAFTS: dict[str, Any] = {
    "kv_cache_dtype": "fp8_e4m3",
    "max_mamba_cache_size": 512,
    "max_running_requests": 128,
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}


def test_draft_states_do_not_shrink() -> None:
    """512 slots and 102 requests with 4 draft states each are more than 84 GiB."""
    known = architecture(QWEN)
    settings = Settings(FLAGS, {**DRAFTS, "available": 84 * GIB})
    with pytest.raises(Infeasible):
        plan(build(known, settings))
    lines = refusal(known, settings)
    assert lines["state slots"] == "512, 5 a request"
    most = int(lines["largest --max-running-requests that starts"])
    fits = printed(QWEN, **{**DRAFTS, "available": 84 * GIB, "max_running_requests": most})
    assert fits["max_running_requests"] == str(most)
    more = Settings(FLAGS, {**DRAFTS, "available": 84 * GIB, "max_running_requests": most + 1})
    with pytest.raises(Infeasible):
        plan(build(known, more))


@pytest.mark.parametrize(
    ("total_gib", "tokens"), [(16, 2048), (24, 4096), (80, 8192), (141, 8192), (178, 16_384)]
)
def test_the_chunk_follows_the_card(total_gib: int, tokens: int) -> None:
    assert resolved(QWEN, total_bytes=total_gib * GIB)["chunked_prefill_size"] == tokens
    assert resolved(QWEN, chunked_prefill_size="-1")["chunked_prefill_size"] == 0


def test_deepseek_v4_runs_256_requests() -> None:
    found = resolved("DeepSeek-V4-Flash")
    assert (found["page_size"], found["max_running_requests"]) == (256, 256)
    assert resolved("DeepSeek-V4-Flash", device="npu")["page_size"] == 128
    assert printed("DeepSeek-V4-Flash", available=2**37)["max_running_requests"] == "256"


def test_the_dtype_of_the_weights_may_be_said() -> None:
    half = printed("Meta-Llama-3.1-8B", available=2**34, dtype="float32")
    assert half["max_total_num_tokens"] == str(2**34 // (32 * 8 * 256 * 4))
