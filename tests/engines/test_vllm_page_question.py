"""What vLLM may decide about its pages, by version: buckets, permissions, and its own layout."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.vllm.dump import server_of_dump
from kvplan.models.engines.vllm.paging.page_question import question_of
from kvplan.models.layouts import Bucket, LayoutQuestion, PageLayout

SPECS: dict[str, dict[str, Any]] = {
    "full": {"kind": "full", "num_kv_heads": 2, "head_size": 128, "dtype": "bfloat16"},
    "swa": {"kind": "window", "num_kv_heads": 2, "head_size": 128, "dtype": "bfloat16"}
    | {"window": 512},
    "wide": {"kind": "window", "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16"}
    | {"window": 512},
    "mla": {"kind": "mla", "num_kv_heads": 1, "head_size": 576, "dtype": "bfloat16"},
    "state": {
        "kind": "mamba",
        "shapes": [[8, 128, 128]],
        "dtypes": ["float32"],
        "page_size_padded": 655_360,
        "num_speculative_blocks": 3,
        "mamba_cache_mode": "align",
    },
}


def asked(
    version: str, *layers: str, block: int = 16, **more: Any
) -> tuple[LayoutQuestion, PageLayout]:
    specs = {name: {"block_size": block, **SPECS[name]} for name in layers}
    data = {
        "specs": specs,
        "layers": list(layers),
        "max_model_len": 8192,
        "max_num_batched_tokens": 2048,
        "available": [10**10],
        **more,
    }
    return question_of(server_of_dump(data, version))


def buckets(*arguments: Any, **more: Any) -> dict[str, Bucket]:
    question, _ = asked(*arguments, **more)
    return {bucket.name: bucket for bucket in question.buckets}


def test_one_bucket_for_each_rule_and_page() -> None:
    found = buckets("0.33.0", "swa", "full", "swa", "wide", "full")
    assert {name: bucket.positions for name, bucket in found.items()} == {
        "window 512": (0, 2),
        "full": (1, 4),
        "window 512 2": (3,),
    }
    window = found["window 512"]
    assert (window.in_flight, window.extra_blocks, window.keep) == (2048, 1, "in_flight")


@pytest.mark.parametrize(
    ("version", "pads"), [("0.33.0", True), ("0.26.0", True), ("0.25.1", False), ("0.19.0", False)]
)
def test_attention_pages_are_padded_from_026_on(version: str, pads: bool) -> None:
    found = buckets(version, "full", "swa")
    assert [bucket.pad for bucket in found.values()] == [pads, pads]


def test_latent_pages_are_never_padded_and_states_always() -> None:
    found = buckets("0.33.0", "mla", "state", block=640)
    assert found["latent"].pad is False
    assert found["state"].pad is True
    assert (found["state"].blocks, found["state"].state_bytes) == (5, 524_288)
    assert found["latent"].kernel_tokens == 128
    assert buckets("0.26.0", "mla", "state", block=640)["latent"].kernel_tokens == 16


def test_most_block_tokens_hold_any_state() -> None:
    """A state of 512 KiB beside 32 B a token needs blocks of 16,384 tokens."""
    small = {"full": {**SPECS["full"], "num_kv_heads": 1, "head_size": 8}}
    data = {**SPECS, **small}
    specs = {name: {"block_size": 16_384, **data[name]} for name in ("full", "state")}
    found = server_of_dump(
        {
            "specs": specs,
            "layers": ["full", "state"],
            "max_model_len": 8192,
            "max_num_batched_tokens": 2048,
            "available": [10**10],
        },
        "0.33.0",
    )
    question, _ = question_of(found)
    assert {bucket.max_tokens_per_block for bucket in question.buckets} == {16_384}


def test_windows_are_held_in_full_where_the_engine_holds_them_so() -> None:
    question, layout = asked("0.33.0", "mla", "wide")
    assert [bucket.hold_full for bucket in question.buckets] == [False, True]
    assert (layout.pages, len(layout.groups)) == ("mixed", 1)
    assert asked("0.33.0", "full", "swa")[0].buckets[1].hold_full is False
    promoted = buckets("0.33.0", "full", "wide", disable_hybrid=True)
    assert [bucket.kind for bucket in promoted.values()] == ["full", "full"]


def test_packed_pages_may_share_groups() -> None:
    question, layout = asked("0.33.0/BLHNC", "full", "wide")
    assert (question.pages, question.share_groups, layout.pages) == ("packed", True, "packed")
    plain, _ = asked("0.33.0", "full", "wide")
    assert (plain.pages, plain.share_groups, plain.reserved_blocks) == ("uniform", False, 1)
    assert asked("0.25.1", "full", "swa")[0].reserved_blocks == 0


def test_layers_that_the_grouping_drops_are_refused() -> None:
    """Windows of one width with unlike numbers of two pages: a split keeps the shorter list."""
    layers = ("full",) + ("swa",) * 9 + ("wide",) * 2
    specs = {name: {"block_size": 16, **SPECS[name]} for name in ("full", "swa", "wide")}
    data = {
        "specs": specs,
        "layers": list(layers),
        "max_model_len": 8192,
        "max_num_batched_tokens": 2048,
        "available": [10**10],
    }
    with pytest.raises(InvalidProblem, match="of them left out"):
        question_of(server_of_dump(data, "0.33.0/BLHNC"))
