"""The budget of each rank: terms of the quota, the bound that rules, and who takes what."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models.plan import LedgerLine, RankPlan
from kvplan.solver import plan
from support.instances import small_problem
from support.micro import micro, one
from support.solvers import agreed, refusal_of

MEMORY: dict[str, Any] = {
    "total": 1000,
    "free": 700,
    "utilization": 0.9,
    "peak_torch": 100,
    "non_torch": 50,
    "graphs": 20,
    "safety": {"fraction": 0.02},
    "connector": 30,
    "prefill_headroom": 40,
    "other": {"nccl": 5},
}


def rank_of(**memory: Any) -> RankPlan:
    [rank] = agreed(micro(ranks=[{"name": "r0", "memory": memory}], **one(8))).ranks
    return rank


def terms_of(rank: RankPlan) -> dict[str, tuple[int, str, str]]:
    """Lines that live in no phase: bytes, source and note."""
    lines = [line for line in rank.ledger if not line.phases]
    return {line.consumer: (line.bytes, line.source, line.note) for line in lines}


def test_every_term_of_the_quota_is_listed_with_its_source() -> None:
    rank = rank_of(**MEMORY)
    assert terms_of(rank) == {
        "total": (1000, "measured", ""),
        "free": (700, "measured", ""),
        "peak_torch": (100, "measured", ""),
        "non_torch": (50, "measured", ""),
        "graphs": (20, "estimated", ""),
        "safety": (20, "declared", "1/50 of total"),
        "connector": (30, "declared", ""),
        "prefill_headroom": (40, "declared", ""),
        "nccl": (5, "declared", ""),
        "utilization share": (900 - 100 - 50 - 20 - 20 - 30 - 5, "solved", ""),
        "physical share": (700 - 30 - 40, "solved", "sets the quota"),
    }
    assert (rank.quota, rank.bound) == (630, "physical")


def test_the_smaller_share_rules() -> None:
    rank = rank_of(**{**MEMORY, "peak_torch": 200})
    assert (rank.quota, rank.bound) == (575, "utilization")
    assert terms_of(rank)["utilization share"] == (575, "solved", "sets the quota")
    assert terms_of(rank)["physical share"] == (630, "solved", "")


def test_of_equal_shares_the_utilization_is_named() -> None:
    rank = rank_of(total=1000, free=900, utilization=0.9)
    assert (rank.quota, rank.bound) == (900, "utilization")


def test_terms_that_are_missing_count_zero_and_are_listed_as_not_given() -> None:
    rank = rank_of(free=500)
    terms = terms_of(rank)
    names = ("total", "peak_torch", "non_torch", "graphs", "safety", "connector")
    assert {terms[name][0::2] for name in (*names, "prefill_headroom")} == {(0, "not given")}
    assert "utilization share" not in terms
    assert terms["free"] == (500, "measured", "")
    assert (rank.quota, rank.bound) == (500, "physical")


def test_a_share_is_of_the_total_and_rounded_up() -> None:
    third = {"fraction": "1/3"}
    rank = rank_of(total=1000, free=900, utilization=1, safety=third, prefill_headroom=third)
    assert terms_of(rank)["safety"] == (334, "declared", "1/3 of total")
    assert terms_of(rank)["prefill_headroom"] == (334, "declared", "1/3 of total")
    assert rank.quota == 900 - 334


def test_a_headroom_from_staging_says_so() -> None:
    staging = [{"name": "s", "base": 100}]
    memory = {"total": 1000, "free": 900, "prefill_headroom": "from_staging"}
    answer = agreed(
        micro(
            ranks=[{"name": "r0", "memory": memory}],
            prefill={"requested": 4, "staging": staging},
        )
    )
    assert terms_of(answer.ranks[0])["prefill_headroom"] == (0, "declared", "the modelled staging")
    assert answer.ranks[0].quota == 900


def staged(**memory: Any) -> RankPlan:
    """A rank whose headroom is the staging of its chunk, 100 B a token of two."""
    memory = {"total": 1000, "prefill_headroom": "from_staging", **memory}
    staging = [{"name": "s", "per_token": 100}]
    prefill = {"requested": 2, "chunks": [1, 2], "staging": staging}
    pools = [{"name": "p", "bytes": 7}]
    ranks = [{"name": "r0", "memory": memory}]
    [rank] = agreed(micro(ranks=ranks, prefill=prefill, pools=pools, **one(168))).ranks
    return rank


def test_a_headroom_from_staging_is_charged_where_nothing_is_staged() -> None:
    rank = staged(free=500)
    line = LedgerLine(
        consumer="prefill_headroom",
        bytes=200,
        source="solved",
        phases=("load", "decode"),
        note="the modelled staging",
    )
    assert line in rank.ledger
    assert rank.phases == {"load": 200, "prefill": 494, "decode": 494}
    assert (rank.quota, rank.used, rank.slack) == (500, 494, 6)


def test_of_a_headroom_the_utilization_leaves_a_part() -> None:
    """850 B of 1,000 may be used: 150 B are free anyway, 50 B more are not."""
    rank = staged(free=1000, utilization="0.85")
    [line] = [each for each in rank.ledger if each.consumer == "prefill_headroom" and each.phases]
    assert (line.bytes, line.note) == (
        50,
        "the modelled staging beyond what the utilization leaves",
    )
    assert rank.phases["decode"] == rank.phases["prefill"] - 200 + 50
    rank = staged(free=1000, utilization="0.75")
    assert not [x for x in rank.ledger if x.consumer == "prefill_headroom" and x.phases]


def test_a_declared_quota_is_one_line() -> None:
    [rank] = agreed(micro(100)).ranks
    assert terms_of(rank) == {"quota": (100, "declared", "")}
    assert rank.bound == "declared"


# --- who takes what -----------------------------------------------------------------------------


def occupants(rank: RankPlan) -> list[tuple[Any, ...]]:
    return [
        (line.consumer, line.bytes, line.source, line.phases, line.note)
        for line in rank.ledger
        if line.phases
    ]


def test_everything_that_takes_bytes_has_its_line() -> None:
    ranks = [{"name": "a", "stage": 0, "quota": 200}, {"name": "b", "stage": 1, "quota": 200}]
    staging = [
        {"name": "ring", "per_token": 10, "group": "g"},
        {"name": "list", "base": 45, "group": "g", "stage": 1},
        {"name": "rows", "base": 3, "stage": 0},
    ]
    answer = agreed(
        micro(
            ranks=ranks,
            prefill={"requested": 4, "staging": staging},
            experts={
                "slot_bytes": 10,
                "layers": {"0": 1, "1": 0},
                "max_slots": 9,
                "lend": {"keep": 1, "fraction": 1},
            },
            consumers=[{"name": "weights", "bytes": {"0": 50, "b": 20}}],
            choices=[{"name": "w", "options": [{"name": "x", "bytes": 7, "phases": ["prefill"]}]}],
            fill="none",
            **one(8),
        )
    )
    every, loaded = ("load", "prefill", "decode"), ("prefill", "decode")
    first, second = answer.ranks
    assert occupants(first) == [
        ("weights", 50, "declared", every, ""),
        ("p", 20, "solved", loaded, ""),
        ("experts", 90, "solved", ("decode",), ""),
        ("experts", 80, "solved", ("prefill",), "1 slots lent"),
        ("rows", 3, "solved", ("prefill",), ""),
        ("ring", 40, "solved", ("prefill",), ""),
        ("w=x", 7, "solved", ("prefill",), ""),
    ]
    assert occupants(second) == [
        ("weights", 20, "declared", every, ""),
        ("p", 20, "solved", loaded, ""),
        ("list", 45, "solved", ("prefill",), ""),
        ("w=x", 7, "solved", ("prefill",), ""),
    ]
    assert first.phases == {"load": 50, "prefill": 200, "decode": 160}
    assert (first.used, first.slack) == (200, 0)
    assert second.phases == {"load": 20, "prefill": 92, "decode": 40}
    assert (second.used, second.slack) == (92, 108)


def living(lines: tuple[LedgerLine, ...], phase: str) -> int:
    return sum(line.bytes for line in lines if phase in line.phases)


@pytest.mark.parametrize("seed", range(150))
def test_the_lines_that_live_in_a_phase_add_up(seed: int) -> None:
    problem = small_problem(seed, constraints=False)
    refusal = refusal_of(problem)
    ranks = plan(problem).ranks if refusal is None else refusal.ranks
    if refusal is None or not refusal.shortfall:
        assert all(rank.slack >= 0 for rank in ranks)
    assert [rank.name for rank in ranks] == [rank.name for rank in problem.ranks]
    for rank, given in zip(ranks, problem.ranks, strict=True):
        assert tuple(rank.phases) == problem.phases
        assert {phase: living(rank.ledger, phase) for phase in rank.phases} == rank.phases
        assert rank.used == max(rank.phases.values())
        assert rank.quota == given.quota_bytes
        assert rank.slack == rank.quota - rank.used
