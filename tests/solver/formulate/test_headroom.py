"""Prefill headroom: off the physical share, so that it is felt where memory is short and nowhere
else (ROCm/ATOM #1495: 0.08 of total, meant for ranks with 34 GB outside torch)."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Plan, Problem
from kvplan.solver import plan
from kvplan.solver.oracle import check

GIB = 2**30
BLOCK_BYTES = 1_399_040
FRACTION = {"fraction": 0.08}
CHUNKS = (4096, 8192, 16_384)
STAGING_BYTES = 2**20  # a token

# ROCm/ATOM PR #3171, DeepSeek-V4-Pro: free and non_torch of three ranks; alike otherwise.
BALANCED = (("160.40", "14.10"), ("160.04", "14.46"), ("160.22", "14.27"))


def rank(name: str, free: str, non_torch: str, headroom: Any, **memory: Any) -> dict[str, Any]:
    readings = {
        "total": "287.98GiB",
        "free": f"{free}GiB",
        "utilization": 0.9,
        "peak_torch": "114.06GiB",
        "non_torch": f"{non_torch}GiB",
        "graphs": "0.34GiB",
        "safety": {"fraction": 0.02},
        "prefill_headroom": headroom,
        **memory,
    }
    return {"name": name, "memory": readings}


def solved(*ranks: dict[str, Any], **sections: Any) -> Plan:
    problem = Problem.model_validate(
        {
            "ranks": ranks,
            "pools": [{"name": "paged", "bytes": BLOCK_BYTES}],
            "caches": [{"name": "full", "kind": "full"}],
            **sections,
        }
    )
    answer = plan(problem)
    assert check(problem, answer) == []
    return answer


def balanced(headroom: Any, **sections: Any) -> Plan:
    ranks = [rank(f"r{i}", free, outside, headroom) for i, (free, outside) in enumerate(BALANCED)]
    return solved(*ranks, **sections)


@pytest.mark.parametrize("headroom", [FRACTION, "23.0384GiB", "35GiB"])
def test_on_balanced_ranks_the_headroom_changes_nothing(headroom: Any) -> None:
    with_it, without = balanced(headroom), balanced(0)
    assert with_it.blocks == without.blocks
    assert with_it.digest == without.digest
    assert {rank.bound for rank in with_it.ranks} == {"utilization"}


def test_on_balanced_ranks_a_headroom_from_staging_changes_nothing() -> None:
    prefill = {
        "requested": 16_384,
        "chunks": list(CHUNKS),
        "staging": [{"name": "activations", "per_token": STAGING_BYTES}],
    }
    # 16 GiB of staging: off the quota in prefill, and within the 35 GiB that are physically free.
    with_it, without = balanced("from_staging", prefill=prefill), balanced(0, prefill=prefill)
    assert with_it.digest == without.digest
    assert with_it.prefill_chunk == 16_384


def test_on_a_heavy_rank_the_headroom_rules_and_is_exact() -> None:
    """34 GB outside torch that nobody charged: the card has less left than the budget says."""
    heavy = rank("heavy", "110.00", "0", FRACTION)
    answer = solved(rank("light", "160.04", "14.46", FRACTION), heavy)
    total = 28_798 * GIB // 100
    physical = 110 * GIB - -(-8 * total // 100)
    assert answer.blocks == {"paged": physical // BLOCK_BYTES}
    assert {rank.name: rank.bound for rank in answer.ranks} == {
        "light": "utilization",
        "heavy": "physical",
    }
    without = solved(rank("heavy", "110.00", "0", 0))
    assert without.blocks == {"paged": 110 * GIB // BLOCK_BYTES}


def test_a_connector_comes_off_both_shares_and_the_headroom_off_one() -> None:
    connector = 256 * 2**20
    for free in ("160.04", "110.00"):
        plain = solved(rank("r", free, "14.46", FRACTION)).ranks[0].quota
        reserved = rank("r", free, "14.46", FRACTION, connector=connector)
        assert solved(reserved).ranks[0].quota == plain - connector


def test_a_headroom_from_staging_is_that_of_the_chosen_chunk() -> None:
    """What #1495 left open: the chunk pays for its own headroom, once, in every phase."""
    prefill = {
        "requested": 16_384,
        "chunks": list(CHUNKS),
        "staging": [{"name": "activations", "per_token": STAGING_BYTES}],
    }
    short = rank("r", "100.00", "0", "from_staging")
    answers = {
        chunk: solved(
            short,
            prefill=prefill,
            goals=["prefill"] if chunk == CHUNKS[-1] else ["blocks:paged"],
            constraints=[{"terms": {"prefill": 1}, "max": chunk}],
        )
        for chunk in CHUNKS
    }
    assert answers[4096].prefill_chunk == 4096
    assert answers[16_384].prefill_chunk == 16_384
    for answer in answers.values():
        assert answer.prefill_chunk is not None
        left = 100 * GIB - answer.prefill_chunk * STAGING_BYTES
        assert answer.blocks == {"paged": left // BLOCK_BYTES}
        assert answer.ranks[0].quota == 100 * GIB  # the staging is charged once, not twice


def test_more_headroom_never_gives_more() -> None:
    counts = [
        solved(rank("r", "110.00", "0", headroom)).blocks["paged"]
        for headroom in (0, "1GiB", FRACTION, "40GiB", "109GiB")
    ]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == len(counts)
