"""DeepSeek-V4 in SGLang: bytes a token and pool sizes as logged."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang import FLAGS, build, figures
from kvplan.solver import oracle, plan
from kvplan.solver.advise.sglang_split import optimize
from support.shapes import architecture

FLASH = "DeepSeek-V4-Flash"
GIB = 2**30


def printed(model: str, **given: Any) -> dict[str, str]:
    """What SGLang prints with these flags."""
    settings = Settings(FLAGS, given)
    known = architecture(model)
    problem = build(known, settings)
    answer = plan(problem)
    assert list(oracle.check(problem, answer)) == []
    return figures(known, settings, problem, answer)


def test_bytes_of_a_full_token() -> None:
    """A log of V4-Flash on an NPU: 7,705.45 bytes; 1,641,472 tokens in 11.89 GB, rings 0.11."""
    given = {"device": "npu", "page_size": 128, "context_length": 131_072}
    cap = {"max_running_requests": 8, "swa_full_tokens_ratio": "0.1"}
    low, high = (
        printed(FLASH, **given, **cap, available=hundredths * GIB // 200)
        for hundredths in (2377, 2379)
    )
    assert low["bytes_per_full_token"] == "7705.45"
    assert int(low["full"]) <= 1_641_472 <= int(high["full"])


def test_pools_behind_the_full_tokens() -> None:
    """A log: 209,280 full tokens, 52,320 of ratio 4, 1,635 of 128, 20,864 window tokens."""
    lines = printed(FLASH, page_size=128, available=2**38, max_total_tokens=209_280)
    found = [lines[label] for label in ("full", "c4", "c128", "swa", "c4_state")]
    assert found == ["209280", "52320", "1635", "20864", str(20_864 // 128 * 8)]


def test_pages_are_padded_on_cuda() -> None:
    """585 bytes a row instead of 584 where a page of 256 is padded to runs of 576."""
    given = {"page_size": 256, "available": 2**36}
    cuda, npu = (
        float(printed(FLASH, **given, device=device)["bytes_per_full_token"])
        for device in ("cuda", "npu")
    )
    # window rows (0.1 x 43), rows of ratio 4 (21 / 4), and runs of 2 rows of ratio 128 (20 / 128)
    assert round(cuda - npu, 2) == round(0.1 * 43 + 21 / 4 + 20 * (864 - 584) / 128, 2)


def test_the_request_cap_sizes_the_window_pool() -> None:
    """With --max-running-requests and no ratio: the cap, and four cached tails a request."""
    given = {"page_size": 256, "available": 2**36, "chunked_prefill_size": 4096}
    lines = printed(FLASH, **given, max_running_requests=32)
    cap = 32 * (128 + 128 + 256 + 256) + 2 * 4096 + 256
    tails = 4 * 32 * (128 + 256)
    assert lines["swa"] == str(-(-(cap + tails) // 256) * 256)
    without = printed(FLASH, **given, max_running_requests=32, disable_radix_cache=True)
    assert without["swa"] == str(-(-cap // 256) * 256)
    assert int(without["full"]) > int(lines["full"])


def test_a_draft_is_charged_as_one_layer_more() -> None:
    given = {"page_size": 256, "available": 2**36, "swa_full_tokens_ratio": "0.1"}
    speculation = {"speculative_algorithm": "EAGLE", "speculative_num_draft_tokens": 4}
    plain = printed(FLASH, **given, max_running_requests=32)
    drafted = printed(FLASH, **given, **speculation, max_running_requests=32)
    assert int(drafted["c4_state"]) == int(drafted["swa"]) // 256 * 16
    assert int(drafted["full"]) < int(plain["full"]) * 43 // 44


def test_pages_of_other_sizes_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="a multiple of 128"):
        build(architecture(FLASH), Settings(FLAGS, {"page_size": 64, "available": GIB}))


def test_the_split_is_left_alone() -> None:
    settings = Settings(FLAGS, {"page_size": 256, "available": 2**36})
    with pytest.raises(InvalidProblem, match="leaves DeepSeek-V4 alone"):
        optimize(architecture(FLASH), settings, 8192)
