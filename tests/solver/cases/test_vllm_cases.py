"""vLLM and its SM70 fork: groups that share one pool, and pipeline stages of unequal layers."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible
from kvplan.solver import oracle, plan
from support.cases import load

GIB, MIB = 2**30, 2**20
GPT_OSS_BLOCK = 589_824


def hundredths(numerator: int, denominator: int) -> int:
    """A ratio as a log prints it: hundredths, rounded to the nearest."""
    return (200 * numerator + denominator) // (2 * denominator)


@pytest.mark.parametrize(
    ("name", "blocks", "block_bytes", "total"),
    [
        ("sm70_padded_page", 96, 64 * MIB, 6 * GIB),
        ("sm70_compact_page", 137, 32 * MIB, 4_596_957_184),
    ],
)
def test_sm70_need_of_65536_tokens_is_exact(
    name: str, blocks: int, block_bytes: int, total: int
) -> None:
    assert blocks * block_bytes == total
    answer = plan(load(name, f"ranks.gpu.quota={total}"))
    assert answer.floors == {"paged": blocks}
    assert answer.ranks[0].slack == 0
    with pytest.raises(Infeasible) as refusal:
        plan(load(name, f"ranks.gpu.quota={total - 1}"))
    assert {short.bytes for short in refusal.value.shortfall} == {1}


def test_sm70_compact_total_is_4_28125_gib() -> None:
    assert 137 * 32 * MIB * 100_000 == 428_125 * GIB


def test_sm70_padded_pages_cost_the_context_in_the_same_bytes() -> None:
    """Of 70 blocks GDN holds 54: 14,336 tokens need 8 of the draft and 2 x 4 of full attention.

    That is no multiple of a full block (4,096 tokens), but one of the draft's.
    """
    compact = plan(load("sm70_compact_page"))
    assert compact.blocks == {"paged": 140}
    fitted = ("ranks.gpu.quota=4.405GiB", "batches.longest.requests.long.fit=capacity")
    padded = plan(load("sm70_padded_page", *fitted))
    assert padded.requests[0].capacity == 14_336
    assert padded.floors == {"paged": 54 + 8 + 2 * 4}


def test_gemma_need_per_request_and_requests_at_once() -> None:
    answer = plan(load("vllm_gemma3_27b"))
    assert answer.blocks == {"paged": 15_997}
    assert answer.floors == {"paged": 512 + 6 * 513}
    assert hundredths(answer.blocks["paged"], answer.floors["paged"]) == 446
    assert answer.copies == 4


@pytest.mark.parametrize(("reserved", "copies", "tokens"), [(0, 4, 200_560), (1, 3, 200_544)])
def test_gemma_null_block_serves_no_request(reserved: int, copies: int, tokens: int) -> None:
    """Four requests need 14,360 blocks; a long one 6 x 577 for its windows, the rest is full."""
    null = f"pools.paged.reserved_blocks={reserved}"
    tight = plan(load("vllm_gemma3_27b", null, f"ranks.gpu.quota={4 * 3590 * 1_310_720}"))
    assert (tight.blocks["paged"], tight.floors["paged"]) == (4 * 3590, 3590)
    assert tight.copies == copies
    long = "batches.longest.requests.long"
    asked = (f"{long}.capacity=262144", f"{long}.fit=capacity")
    assert plan(load("vllm_gemma3_27b", null, *asked)).requests[0].capacity == tokens


def test_gpt_oss_context_that_fits_where_startup_was_refused() -> None:
    answer = plan(load("vllm_gpt_oss_27508"))
    assert answer.blocks == {"paged": 3112}
    assert answer.requests[0].capacity == (3112 - 73) * 16 == 48_624


def test_gpt_oss_full_context_needs_4_54_gib_to_the_byte() -> None:
    needed = (8192 + 73) * GPT_OSS_BLOCK
    assert hundredths(needed, GIB) == 454
    with pytest.raises(Infeasible) as refusal:
        plan(load("vllm_gpt_oss_27508", "batches.longest.requests.long.fit=none"))
    assert {short.bytes for short in refusal.value.shortfall} == {needed - 171 * GIB // 100}
    exact = plan(load("vllm_gpt_oss_27508", f"ranks.gpu.quota={needed}"))
    assert (exact.requests[0].capacity, exact.floors["paged"]) == (131_072, 8265)
    less = plan(load("vllm_gpt_oss_27508", f"ranks.gpu.quota={needed - 1}"))
    assert less.requests[0].capacity == 131_056


@pytest.mark.parametrize(
    ("small", "large", "tokens", "binding"),
    [("3.18GiB", "16GiB", 104_192, "pp0"), ("16GiB", "3.18GiB", 52_096, "pp1")],
)
def test_a_stage_is_held_to_its_own_layers(
    small: str, large: str, tokens: int, binding: str
) -> None:
    answer = plan(load("vllm_pp_34076", f"ranks.pp0.quota={small}", f"ranks.pp1.quota={large}"))
    assert answer.requests[0].capacity == tokens
    assert {entry.rank for entry in answer.binding} == {binding}


def test_the_least_free_stage_may_not_be_the_tightest() -> None:
    """3.18 GiB over 16 layers hold more than 6 GiB over 32."""
    answer = plan(load("vllm_pp_34076", "ranks.pp1.quota=6GiB"))
    assert answer.requests[0].capacity == 6 * GIB // 65_536
    assert {entry.rank for entry in answer.binding} == {"pp1"}


def test_the_full_context_takes_8_and_16_gib_of_the_stages() -> None:
    answer = plan(load("vllm_pp_34076", "ranks.pp0.quota=8GiB", "ranks.pp1.quota=16GiB"))
    assert answer.requests[0].capacity == 262_144
    assert [rank.used for rank in answer.ranks] == [8 * GIB, 16 * GIB]
    assert [rank.slack for rank in answer.ranks] == [0, 0]


def test_stages_allocate_the_agreed_count_and_not_their_own() -> None:
    problem = load("vllm_pp_25164")
    answer = plan(problem)
    assert answer.blocks["paged"] * 16 == 46_800
    assert [rank.used for rank in answer.ranks] == [2925 * 1_835_008, 766_771_200]
    assert answer.ranks[1].slack == 4_601_937_920
    # What the small stage has room for breaks the large one's quota.
    own = answer.model_copy(update={"blocks": {"paged": 327_680 // 16}})
    over = {v.where for v in oracle.check(problem, own) if v.rule == "quota"}
    assert over == {"pp0/prefill", "pp0/decode"}
