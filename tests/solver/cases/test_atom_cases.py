"""ROCm/ATOM: plans of logged servers (PR #3171), and the state/page trade of Kimi-K3."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvplan.kernels.instance import Budget
from kvplan.models import CheckFailed, Problem
from kvplan.solver import oracle, plan
from kvplan.solver.formulate import formulation
from support.cases import load

GIB = 2**30
LLAMA_BLOCK, LLAMA_BLOCKS = 540_672, 107_631
GLM_BLOCK = 1_486_080
GLM_COUNTS = [29453, 29462, 29470, 29518, 29595, 29609, 29620, 29905]
V4_BLOCK, V4_STATE = 1_399_040, 13_004_876_615
K3_SLOT, K3_BLOCK, K3_BLOCKS_EACH = 56_171_520, 221_184, 308


def printed(hundredths: int) -> range:
    """Bytes that a log prints as so many hundredths of a GiB."""
    low, high = (2 * hundredths - 1) * GIB, (2 * hundredths + 1) * GIB
    return range(-(-low // 200), -(-high // 200))


def only(problem: Problem, *names: str) -> Problem:
    """The same problem on some of its ranks."""
    ranks = tuple(rank for rank in problem.ranks if rank.name in names)
    return problem.model_copy(update={"ranks": ranks})


def test_llama_quota_and_blocks_lie_where_the_log_has_them() -> None:
    available = printed(5420)
    answer = plan(load("atom_llama3_8b_tp2"))
    counts = range(available[0] // LLAMA_BLOCK, available[-1] // LLAMA_BLOCK + 1)
    assert all(rank.quota in available for rank in answer.ranks)
    assert answer.blocks["paged"] in counts
    assert LLAMA_BLOCKS in counts
    assert len(counts) == 21


@pytest.mark.parametrize(
    ("available", "blocks"),
    [
        (LLAMA_BLOCKS * LLAMA_BLOCK - 1, LLAMA_BLOCKS - 1),
        (LLAMA_BLOCKS * LLAMA_BLOCK, LLAMA_BLOCKS),
        ((LLAMA_BLOCKS + 1) * LLAMA_BLOCK - 1, LLAMA_BLOCKS),
        ((LLAMA_BLOCKS + 1) * LLAMA_BLOCK, LLAMA_BLOCKS + 1),
    ],
)
def test_llama_logged_blocks_follow_from_their_bytes_exactly(available: int, blocks: int) -> None:
    problem = load("atom_llama3_8b_tp2", "ranks.*.memory=null", f"ranks.*.quota={available}")
    answer = plan(problem)
    assert answer.blocks == {"paged": blocks}
    assert {rank.bound for rank in answer.ranks} == {"declared"}


def test_llama_ledger_names_the_bound_that_ruled() -> None:
    logged = plan(load("atom_llama3_8b_tp2"))
    crowded = plan(load("atom_llama3_8b_tp2", "ranks.tp1.memory.free=50GiB"))
    assert [rank.bound for rank in logged.ranks] == ["utilization", "utilization"]
    assert crowded.ranks[1].bound == "physical"
    assert crowded.ranks[1].quota == 50 * GIB
    assert crowded.blocks == {"paged": 50 * GIB // LLAMA_BLOCK}


def test_glm_eight_unequal_ranks_get_one_plan_and_the_tightest_is_named() -> None:
    answer = plan(load("atom_glm52_tp8"))
    assert answer.blocks == {"paged": 29453}
    assert {binding.rank for binding in answer.binding} == {"tp3"}
    assert {rank.used for rank in answer.ranks} == {29453 * GLM_BLOCK}
    assert answer.ranks[0].slack == (29905 - 29453) * GLM_BLOCK


def test_glm_each_rank_alone_gives_its_own_count() -> None:
    problem = load("atom_glm52_tp8")
    alone = [plan(only(problem, rank.name)).blocks["paged"] for rank in problem.ranks]
    assert sorted(alone) == GLM_COUNTS


def test_glm_without_its_tightest_rank_has_the_next_count() -> None:
    problem = load("atom_glm52_tp8")
    others = [rank.name for rank in problem.ranks if rank.name != "tp3"]
    answer = plan(only(problem, *others))
    assert answer.blocks == {"paged": 29462}
    assert {binding.rank for binding in answer.binding} == {"tp2"}


def loosest(rows: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """The merge of rank rows with its minimum turned into a maximum."""
    return (max((row for row in rows if row.pools), key=lambda row: row.limit_bytes),)


def without_tp3(rows: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """Rank rows with the tightest rank left out."""
    return tuple(row for row in rows if row.rank != 3)


@pytest.mark.parametrize(("mutation", "count"), [(loosest, 29905), (without_tp3, 29462)])
def test_glm_a_wrong_merge_of_ranks_is_caught(
    mutation: Callable[[tuple[Budget, ...]], tuple[Budget, ...]],
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = load("atom_glm52_tp8")
    monkeypatch.setattr(formulation, "merge_budgets", mutation)
    with pytest.raises(CheckFailed, match="exceeds its quota") as caught:
        plan(problem)
    short = [n for n in GLM_COUNTS if n < count]
    assert str(caught.value).count("in decode") == len(short)


def test_glm_a_plan_at_the_largest_count_breaks_seven_quotas() -> None:
    problem = load("atom_glm52_tp8")
    wrong = plan(problem).model_copy(update={"blocks": {"paged": 29905}})
    short = {v.where for v in oracle.check(problem, wrong) if v.rule == "quota"}
    phases = ("prefill", "decode")
    assert short == {f"{r.name}/{p}" for r in problem.ranks for p in phases if r.name != "tp0"}


def test_deepseek_v4_state_and_pages_share_the_tightest_ranks() -> None:
    answer = plan(load("atom_deepseek_v4_pro"))
    assert answer.blocks == {"state": 1, "paged": 86_310}
    assert {binding.rank for binding in answer.binding} == {"pcp0-tp1", "pcp1-tp3"}
    assert min(rank.quota for rank in answer.ranks) == V4_STATE + 86_310 * V4_BLOCK
    assert all(printed(12457)[0] <= rank.quota <= printed(12492)[-1] for rank in answer.ranks)


def test_deepseek_v4_ranks_alone_would_differ_by_268_blocks() -> None:
    problem = load("atom_deepseek_v4_pro")
    alone = [plan(only(problem, rank.name)).blocks["paged"] for rank in problem.ranks]
    assert alone == [86_578, 86_310, 86_448, 86_555, 86_402, 86_325, 86_417, 86_310]


def test_deepseek_v4_one_byte_more_of_state_costs_a_block() -> None:
    answer = plan(load("atom_deepseek_v4_pro", f"pools.state.bytes={V4_STATE + 1}"))
    assert answer.blocks["paged"] == 86_309


def test_kimi_k3_serves_387_sequences_and_no_more() -> None:
    answer = plan(load("kimi_k3_trade"))
    each = K3_SLOT + K3_BLOCKS_EACH * K3_BLOCK
    assert answer.status == "optimal"
    assert answer.requests[0].count == 387
    assert answer.floors == {"state": 387, "paged": 387 * K3_BLOCKS_EACH}
    assert 387 * each <= answer.ranks[0].quota < 388 * each
    assert answer.blocks == {"state": 387, "paged": 119_686}


@pytest.mark.parametrize(
    ("slots", "blocks", "sequences"), [(512, 86_055, 279), (384, 120_425, 384)]
)
def test_kimi_k3_hand_picked_slots_serve_what_the_guide_says(
    slots: int, blocks: int, sequences: int
) -> None:
    """A launch's quota is what its slots and blocks take; the 512-slot one had 44.51 GiB."""
    quota = slots * K3_SLOT + blocks * K3_BLOCK
    fixed = (f"pools.state.min_blocks={slots}", f"pools.state.max_blocks={slots}")
    answer = plan(load("kimi_k3_trade", f"ranks.tp0.quota={quota}", *fixed))
    assert answer.blocks == {"state": slots, "paged": blocks}
    assert answer.requests[0].count == sequences


@pytest.mark.parametrize(("slots", "sequences"), [(512, 285), (384, 384)])
def test_kimi_k3_hand_picked_slots_in_44_9_gib(slots: int, sequences: int) -> None:
    fixed = (f"pools.state.min_blocks={slots}", f"pools.state.max_blocks={slots}")
    answer = plan(load("kimi_k3_trade", *fixed))
    assert answer.requests[0].count == sequences
    assert sequences == min(slots, (answer.ranks[0].quota - slots * K3_SLOT) // (308 * K3_BLOCK))


def test_kimi_k3_free_slots_beat_512_by_105_sequences_in_the_same_bytes() -> None:
    quota = 512 * K3_SLOT + 86_055 * K3_BLOCK
    answer = plan(load("kimi_k3_trade", f"ranks.tp0.quota={quota}"))
    assert answer.requests[0].count == 384
