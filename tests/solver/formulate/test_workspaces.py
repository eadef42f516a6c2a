"""Staging that follows the prefill chunk and the context of a request."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

import kvplan
from kvplan.kernels.instance import POW2, Part, Workspace
from kvplan.kernels.workspace import AtChunk, workspace_bytes
from kvplan.models import Problem
from kvplan.solver import Planner, need, plan
from kvplan.solver.oracle import best
from kvplan.solver.sweep.by_name import fit
from support.bad import refused as lines
from support.decisions import expected, found
from support.micro import micro, one
from support.solvers import agreed, changed, refusal_of, refused

# ik_llama.cpp #237, exo #1048, sglang #18263: a workspace of 64 B x chunk x context, both free.
SCORES: dict[str, Any] = {
    "ranks": [{"name": "r", "quota": "20GiB"}],
    "tokens_per_block": 256,
    "pools": [{"name": "kv", "bytes": "16MiB"}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [
        {
            "name": "one",
            "requests": [
                {"name": "ctx", "capacity": 262144, "fit": "capacity", "min_capacity": 4096}
            ],
        }
    ],
    "prefill": {
        "requested": 2048,
        "chunks": [512, 1024, 2048],
        "staging": [{"name": "scores", "per_token_context": 64}],
    },
}


def staged(*entries: dict[str, Any], chunks: list[int], **fields: Any) -> dict[str, Any]:
    """The section of a prefill with some chunks, the last one requested."""
    named = [{"name": f"s{index}", **entry} for index, entry in enumerate(entries)]
    listed = {"requested": chunks[-1], "chunks": chunks, "staging": named, **fields}
    return {"prefill": listed}


@pytest.mark.parametrize(
    ("goals", "capacity", "chunk", "blocks"),
    [
        ([], 218_368, 512, 853),  # 853 x 16 MiB + 64 B x 512 x 218,368 = 21,466,447,872 B
        (["prefill"], 109_184, 2048, 427),  # 427 x 16 MiB + 64 B x 2,048 x 109,184: all of it
        ([{"maximize": {"capacity:ctx": 1, "prefill": 1000}}], 109_184, 2048, 427),
    ],
)
def test_context_against_chunk(goals: list[Any], capacity: int, chunk: int, blocks: int) -> None:
    answer = agreed(Problem.model_validate(SCORES | {"goals": goals}))
    reached = (answer.requests[0].capacity, answer.prefill_chunk, answer.blocks["kv"])
    assert reached == (capacity, chunk, blocks)


def test_every_chunk_of_a_fine_grid_may_be_chosen() -> None:
    prefill = {**SCORES["prefill"], "chunks": None, "min": 1, "step": 1}
    goal = {"maximize": {"capacity:ctx": 1, "prefill": 50}}
    answer = agreed(Problem.model_validate(SCORES | {"prefill": prefill, "goals": [goal]}))
    worth = {
        chunk: largest + 50 * chunk
        for chunk in range(1, 2049)
        if (largest := _largest_context(20 * 2**30, chunk))
    }
    best = max(worth.values())
    assert answer.requests[0].capacity + 50 * (answer.prefill_chunk or 0) == best


def _largest_context(quota: int, chunk: int) -> int:
    """By hand: whole blocks first, then what the last one still holds."""
    fits = 0
    for blocks in range(1, 1025):
        left = quota - blocks * 16 * 2**20
        if left >= 64 * chunk * (256 * (blocks - 1) + 1):
            fits = min(256 * blocks, left // (64 * chunk))
    return fits if fits >= 4096 else 0


@pytest.mark.parametrize(
    ("entry", "chunk", "taken"),
    [
        ({"per_token_context": 1}, 3, 24),
        ({"per_token_context": "1/5"}, 3, 5),  # 24/5, rounded up once
        ({"per_token_context": "1/5", "per_token": "1/3", "base": 2}, 2, 6),  # 2 + 16/5 + 2/3
        ({"per_token_context": 1, "granule": 10}, 3, 30),
        ({"per_token_context": 1, "granule": "pow2"}, 3, 32),
        ({"per_token_context": 1, "table": [[2, 5], [9, 7]]}, 3, 31),
        ({"context_table": [[7, 3], [8, 11], [9, 12]]}, 3, 11),
        ({"context_table": [[8, 11]], "per_token": 2}, 3, 17),
    ],
)
@pytest.mark.parametrize("fit", [{}, {"fit": "capacity", "min_capacity": 8}])
def test_the_parts_of_an_entry_add_up(
    entry: dict[str, Any], chunk: int, taken: int, fit: dict[str, Any]
) -> None:
    sections = staged(entry, chunks=[chunk]) | one(8, **fit)
    answer = agreed(micro(1000, **sections, fill="none"))
    assert answer.ranks[0].phases["prefill"] - answer.ranks[0].phases["decode"] == taken
    refused(micro(19 + taken, **sections, fill="none"))
    assert agreed(micro(20 + taken, **sections, fill="none")).ranks[0].slack == 0


def test_of_a_group_the_largest_counts() -> None:
    entries = [
        {"per_token_context": 2, "group": "g"},
        {"base": 50, "group": "g"},
        {"context_table": [[4, 1], [40, 30]], "group": "g"},
    ]
    sections = staged(*entries, chunks=[3]) | one(40, fit="capacity")
    # 20 tokens: 5 blocks of 10 B beside 3 x 2 x 20 B; 8 tokens: 2 blocks beside the base.
    assert agreed(micro(170, **sections)).requests[0].capacity == 20
    assert agreed(micro(70, **sections)).requests[0].capacity == 8
    assert agreed(micro(70, **sections)).ranks[0].slack == 0


def test_only_prefill_and_its_stage_have_it() -> None:
    ranks = [{"name": f"r{stage}", "stage": stage, "quota": 1000} for stage in (0, 1)]
    entry = {"per_token_context": 1, "stage": 1}
    answer = agreed(micro(ranks=ranks, fill="none", **staged(entry, chunks=[5]), **one(40)))
    assert [rank.phases for rank in answer.ranks] == [
        {"load": 0, "prefill": 100, "decode": 100},
        {"load": 0, "prefill": 300, "decode": 100},
    ]


def test_a_headroom_from_the_staging_follows_the_context() -> None:
    memory = {"total": 2000, "free": 300, "utilization": "1/2", "prefill_headroom": "from_staging"}
    ranks = [{"name": "r0", "memory": memory}]
    sections = staged({"per_token_context": 1}, chunks=[5]) | one(400, fit="capacity")
    answer = agreed(micro(ranks=ranks, fill="none", **sections))
    # 10 B a block of 4 tokens and 5 B a token within 300 B: 40 tokens, in decode as well.
    assert (answer.requests[0].capacity, answer.ranks[0].phases["decode"]) == (40, 300)
    assert [line.note for line in answer.ranks[0].ledger if line.consumer == "s0"] == [
        "1 B x 5 x 40 tokens of q"
    ]


def test_the_context_of_a_count_and_of_a_placeholder_is_what_is_asked() -> None:
    entry = {"per_token_context": 1}
    counted = one(8, fit="count", count=9) | staged(entry, chunks=[2])
    assert agreed(micro(100, **counted)).requests[0].count == 4  # 16 B of staging, 20 B each
    empty = one(0) | staged(entry, chunks=[2])
    assert agreed(micro(100, **empty)).ranks[0].phases["prefill"] == 100


@pytest.mark.parametrize("fit", [{}, {"fit": "capacity"}])
def test_a_request_that_does_not_run_has_no_context(fit: dict[str, Any]) -> None:
    sections = staged({"per_token_context": 1, "base": 3}, chunks=[2]) | one(8, count=0, **fit)
    answer = agreed(micro(100, **sections, fill="none"))
    assert answer.ranks[0].phases["prefill"] == 3
    assert answer.ranks[0].ledger[-1].note == "1 B x 2 x 0 tokens of q"


def test_two_requests_with_a_workspace_each() -> None:
    requests = [
        {"name": name, "capacity": 60, "fit": "capacity", "count": count}
        for name, count in (("a", 1), ("b", 2))
    ]
    entries = [{"per_token_context": rate, "request": name} for name, rate in (("a", 1), ("b", 3))]
    sections = {
        "batches": [{"name": "x", "requests": requests}],
        **staged(*entries, chunks=[1, 2]),
    }
    first = agreed(micro(300, **sections))
    swapped = agreed(micro(300, **sections, goals=["capacity:b"]))
    assert [(r.capacity, r.count) for r in first.requests] == [(60, 1), (10, 2)]
    assert [(r.capacity, r.count) for r in swapped.requests] == [(2, 1), (36, 2)]
    goal = {"maximize": {"capacity:a": 1, "capacity:b": 2}}
    weighed = agreed(micro(300, **sections, goals=[goal]))
    assert weighed.proof.certificate == "cp-sat"
    best = max(
        a + 2 * b
        for a in range(1, 61)
        for b in range(1, 61)
        if 10 * (-(-a // 4) - 2 * (-b // 4)) + a + 3 * b <= 300
    )
    assert weighed.requests[0].capacity + 2 * weighed.requests[1].capacity == best


def test_copies_run_one_prefill() -> None:
    sections = staged({"per_token_context": 1}, chunks=[2]) | one(40, fit="capacity")
    answer = agreed(micro(280, **sections, fill={"batch": "b"}))
    assert (answer.copies, answer.ranks[0].phases["prefill"]) == (2, 280)


def test_live_windows_beside_a_workspace() -> None:
    window = {"name": "w", "pool": "p", "kind": "window", "keep": "live", "window": 9}
    sections = staged({"per_token_context": "1/2"}, chunks=[1, 3]) | one(200, fit="capacity")
    for quota in range(40, 140, 7):
        agreed(micro(quota, caches=[window], **sections))


@pytest.mark.parametrize("rate", ["1/4", 1])
def test_the_least_blocks_are_not_the_least_staging(rate: Any) -> None:
    """Of an open capacity a larger value may need fewer blocks, and more of the workspace."""
    windows = [
        {"name": f"w{t}", "pool": "p", "kind": "window", "keep": "live", "window": reach}
        | {"tokens_per_block": t}
        for t, reach in ((2, 7), (3, 11), (5, 4))
    ]
    sections = staged({"per_token_context": rate}, chunks=[1])
    sections |= one(60, 58, fit="capacity", min_capacity=14)
    for quota in range(100, 160, 3):
        problem = micro(quota, caches=windows, goals=["blocks:p"], **sections)
        truth, refusal = best(problem), refusal_of(problem)
        assert (truth is None) == (refusal is not None)
        if truth is not None:
            assert found(agreed(problem)) == expected(truth)


def test_a_resize_holds_the_context() -> None:
    sections = staged({"per_token_context": 1}, chunks=[1, 2, 4]) | one(400, fit="capacity")
    problem = micro(400, **sections, goals=["prefill"])
    answer = plan(problem)
    assert (answer.requests[0].capacity, answer.prefill_chunk) == (60, 4)
    smaller = answer.resize(300)  # 150 B of blocks, so 2 x 60 B of staging fit
    assert (smaller.requests[0].capacity, smaller.prefill_chunk) == (60, 2)
    planner = Planner(problem)
    for quota in (100, 250, 555):
        assert (
            planner.plan(quota=quota).digest
            == plan(micro(quota, **sections, goals=["prefill"])).digest
        )


def test_what_is_said_of_it() -> None:
    answer = plan(Problem.model_validate(SCORES | {"goals": ["prefill"]}))
    assert [line.note for line in answer.ranks[0].ledger if line.consumer == "scores"] == [
        "64 B x 2,048 x 109,184 tokens of ctx"
    ]
    assert answer.notes[0].startswith(
        "capacity:ctx: requested 262144, clamped to 109184: limited by rank r in prefill"
    )
    floors = need(Problem.model_validate(SCORES))
    assert floors.least.bytes["r"]["prefill"] == 16 * 16 * 2**20 + 64 * 512 * 4096
    assert floors.asked.bytes["r"]["prefill"] == 1024 * 16 * 2**20 + 64 * 2048 * 262144


def test_a_refusal_says_what_helps() -> None:
    short = changed(Problem.model_validate(SCORES), ranks=[{"name": "r", "quota": "300MiB"}])
    refusal = refused(short)
    assert "rank r is short by 88_080_384 B (84.00 MiB) in prefill" in str(refusal)
    changes = {remedy.change: remedy.to for remedy in refusal.remedies}
    assert changes["batches.one.requests.ctx.min_capacity"] == 3072
    assert changes["prefill.chunks[0]"] == 176
    assert "and 4_096 tokens of ctx" in " ".join(claim.text for claim in refusal.conflict)
    explained = kvplan.explain(Problem.model_validate(SCORES))
    assert explained.plan.prefill_chunk == 512


def test_sweeps_go_one_by_one_and_say_so() -> None:
    requests = [
        {"name": "open", "capacity": 60, "fit": "capacity"},
        {"name": "given", "capacity": 8},
    ]
    entries = [{"per_token_context": 1, "request": name} for name in ("open", "given")]
    sections = {"batches": [{"name": "x", "requests": requests}], **staged(*entries, chunks=[1, 3])}
    vary = {
        "quota": [150, 200, 290, 290, 290, 290],
        "capacity:given": [8, 9, 20, 3, 3, 3],
        "count:given": [1, 1, 1, 1, 0, 2],
        "count:open": [1, 1, 1, 1, 2, 0],
    }
    swept = fit(micro(**sections), vary)
    assert [note.partition(":")[0] for note in swept.notes] == ["scenarios solved one by one"]
    for row, (quota, given, *counts) in enumerate(zip(*vary.values(), strict=True)):
        requests[0]["count"], requests[1]["count"] = counts[1], counts[0]
        requests[1]["capacity"] = given
        answer = plan(micro(quota, **sections))
        assert swept.capacities[row, 0] == answer.requests[0].capacity
        assert swept.prefill[row] == answer.prefill_chunk


PARTS = (
    Part((5, 9), (7, 11), 3, (), 16),
    Part((0, 0), (0, 0), 1, ((4, 10), (60, 200)), POW2),
)


@pytest.mark.parametrize("chunk", [0, 1])
def test_most_tokens_are_the_most_within_a_limit(chunk: int) -> None:
    workspaces = (Workspace(0, PARTS), Workspace(0, PARTS[:1]))
    grown = AtChunk(workspaces, chunk)
    taken = [grown.taken(tokens) for tokens in range(61)]
    assert all(a <= b for a, b in pairwise(taken))
    for limit in range(400):
        most = grown.most(limit)
        assert most == max([n for n, size in enumerate(taken) if size <= limit], default=-1)
    slope = Fraction(7 + 4 * chunk, 3)
    whole = -(-(Fraction(5 + 4 * chunk, 3) + slope * 30) // 16) * 16
    assert workspace_bytes(workspaces[1], chunk, 30) == whole


def prefilled(*entries: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Plain data with staging entries beside two requests of one name and one of another."""
    batches = [
        {"name": name, "requests": [{"name": "q", "capacity": 8}, *more]}
        for name, more in (("a", [{"name": "r", "capacity": 4}]), ("b", []))
    ]
    data = micro().model_dump(mode="json", exclude_unset=True)
    return {**data, "batches": batches, **staged(*entries, chunks=[9]), **sections}


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"per_token_context": 1, "request": "s"}, ".request: expected one of q, r, q, got 's'"),
        (
            {"per_token_context": 1, "request": "q"},
            ".request: expected the name of one request, got 'q' in batches 'a', 'b'",
        ),
        (
            {"per_token_context": 1},
            ".request: expected the name of a request (it may be left out when there is one), "
            "got none, with 3 requests",
        ),
        ({"per_token_context": -1, "request": "r"}, ".per_token_context: expected bytes"),
        (
            {"per_token_context": "4PiB", "request": "r", "base": "8191PiB"},
            ": expected bytes below 2^63 at 9 x 4 tokens, got more",
        ),
        (
            {"context_table": [[3, 5]], "request": "r"},
            ".context_table: expected a table up to capacity 4 of the request, got one that ends "
            "at 3",
        ),
        (
            {"context_table": [[3, 5], [4, 4]], "request": "r"},
            ".context_table[1]: expected non-decreasing bytes, got 4 after 5",
        ),
        (
            {"base": 5, "request": "r"},
            ".request: expected per_token_context or context_table beside request, got neither",
        ),
    ],
)
def test_bad_input_is_one_line(entry: dict[str, Any], line: str) -> None:
    (told,) = lines(prefilled(entry))
    assert told.startswith(f"prefill.staging[0]{line}")


def test_a_group_follows_one_request() -> None:
    entries = [
        {"per_token_context": 1, "request": "r", "group": "g"},
        {"per_token_context": 1, "request": "x.1", "group": "g"},
    ]
    data = prefilled(*entries)
    data["batches"][1] = {"name": "x", "requests": [{"name": "q2", "capacity": 8}, {"capacity": 8}]}
    assert lines(data) == [
        "prefill.staging[1].request: expected one request in all of group 'g', "
        "got 'x.1' beside another"
    ]
