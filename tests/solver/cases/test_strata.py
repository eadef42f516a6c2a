"""Strata #765 and the planner cases of PR #796: expert cache, prompt buffers, KV in one budget."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from kvplan.models import Infeasible
from kvplan.solver import plan
from support.cases import load

MIB, GIB = 2**20, 2**30
SLOT = ceil(Fraction("2.2225") * MIB)
HELD = 2048 * 256 * 7057 + 1_400_000_000 + 700 * MIB  # KV, weight arena, reserve


def quota_of(gib: str) -> int:
    return int(Fraction(gib) * GIB)


def staging(chunk: int) -> int:
    ring = Fraction("442.2775") if chunk >= 1024 else Fraction("17.78")
    return (64 * MIB + 74 * 1024 * chunk) + ceil(ring * MIB)


def largest(quota: int) -> tuple[int, int]:
    """Chunk, then slots, tried from the largest chunk down with the 128 slots of the floor."""
    for chunk in range(24576, 0, -256):
        slots = (quota - HELD - staging(chunk)) // SLOT
        if slots >= 128:
            return chunk, slots
    raise AssertionError("nothing fits")


def test_the_card_of_the_issue_starts_with_the_chunk_it_asked_for() -> None:
    answer = plan(load("strata_765"))
    assert (answer.prefill_chunk, answer.expert_slots) == (24576, 3565)
    assert (answer.prefill_chunk, answer.expert_slots) == largest(answer.ranks[0].quota)
    assert not any(note.startswith("prefill") for note in answer.notes)


@pytest.mark.parametrize(("gib", "slots"), [("12", 1998), ("10", 1077), ("8", 155)])
def test_experts_shrink_before_the_chunk_does(gib: str, slots: int) -> None:
    answer = plan(load("strata_765", f"ranks.gpu.quota={gib}GiB"))
    assert (answer.prefill_chunk, answer.expert_slots) == (24576, slots) == largest(quota_of(gib))


@pytest.mark.parametrize(
    ("gib", "chunk"),
    [("7.9", 23808), ("7.5", 18176), ("7", 11008), ("6.5", 4096), ("6.2", 768), ("5.82", 256)],
)
def test_the_chunk_falls_once_experts_are_at_their_floor(gib: str, chunk: int) -> None:
    answer = plan(load("strata_765", f"ranks.gpu.quota={gib}GiB"))
    assert (answer.prefill_chunk, answer.expert_slots) == largest(quota_of(gib))
    assert answer.prefill_chunk == chunk
    wanted = f"prefill: requested 24576, clamped to {chunk}"
    assert [note for note in answer.notes if note.startswith(wanted)]


def test_a_card_too_small_for_everything_is_refused_with_its_budget() -> None:
    quota = quota_of("5.8")
    with pytest.raises(Infeasible) as refusal:
        plan(load("strata_765", f"ranks.gpu.quota={quota}"))
    least = HELD + staging(256) + 128 * SLOT
    assert [*refusal.value.shortfall] == [("gpu", "prefill", least - quota)]
    [rank] = refusal.value.ranks
    lines = {line.consumer: line.bytes for line in rank.ledger}
    assert lines["weight arena"] == 1_400_000_000
    assert lines["experts"] == 128 * SLOT
    assert sum(line.bytes for line in rank.ledger if "prefill" in line.phases) == least


def test_priorities_are_data_experts_first_leaves_the_smallest_chunk() -> None:
    answer = plan(load("strata_765", "goals=[experts, prefill]"))
    assert (answer.prefill_chunk, answer.expert_slots) == (256, 4546)


@pytest.mark.parametrize(
    ("slots", "chunk", "lent"), [(760, 13824, 631), (600, 8704, 471), (460, 4096, 327)]
)
def test_experts_lend_the_prefill_its_buffers(slots: int, chunk: int, lent: int) -> None:
    sizes = (f"experts.min_slots={slots}", f"experts.max_slots={slots}")
    answer = plan(load("strata_lending", f"ranks.gpu.quota={2 * slots}MiB", *sizes))
    needed = chunk * 64 * 1024 + 398 * MIB
    assert answer.prefill_chunk == chunk
    assert answer.expert_slots == slots
    assert answer.expert_slots_in_prefill == slots - lent
    assert (lent - 1) * 2 * MIB < needed <= lent * 2 * MIB
    assert any(note.startswith("prefill: requested 24576, clamped to") for note in answer.notes)


def test_slots_of_two_sizes_lend_less_than_their_number_says() -> None:
    """Case R3: 272 cold slots hold 369 MiB; a chunk of 1,024 takes 462, one of 768 takes 64."""
    sized = plan(load("strata_sized_slots"))
    alike = ("ranks.gpu.quota=800MiB", "experts.slot_bytes=2MiB", "experts.max_slots=400")
    uniform = plan(load("strata_sized_slots", *alike))
    assert (sized.prefill_chunk, sized.expert_slots_in_prefill) == (768, 280)
    assert (uniform.prefill_chunk, uniform.expert_slots_in_prefill) == (1024, 400 - 231)


def test_sized_slots_that_must_lend_a_full_ring_are_refused() -> None:
    only = ("prefill.min=null", "prefill.step=null", "prefill.chunks=[1024]")
    with pytest.raises(Infeasible):
        plan(load("strata_sized_slots", *only))


@pytest.mark.parametrize(
    ("free", "chunk", "slots"),
    [("8192MiB", 24576, (8192 - 700 - 64 - 1536 - 398) // 2), ("1646MiB", 7680, 2)],
)
def test_owned_prompt_buffers_leave_the_rest_to_the_cache(
    free: str, chunk: int, slots: int
) -> None:
    """Cases A and E2: E2 has the reserve, a chunk of 6,144, the margin and 100 MiB more."""
    answer = plan(load("strata_plan", f"ranks.gpu.quota={free}"))
    assert (answer.prefill_chunk, answer.expert_slots) == (chunk, slots)


def test_a_card_with_the_reserve_alone_is_refused() -> None:
    """Case C: 718 MiB, of which 700 are the reserve; the least chunk takes 96."""
    with pytest.raises(Infeasible) as refusal:
        plan(load("strata_plan", "ranks.gpu.quota=718MiB", "prefill.requested=4096"))
    assert [short.bytes for short in refusal.value.shortfall] == [78 * MIB]
