"""need(): floors and bytes without solving, against the oracle and by hand."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible, InvalidProblem, Problem
from kvplan.solver import need, plan
from kvplan.solver.floors import Need
from kvplan.solver.oracle import needs
from support.instances import small_problem
from support.micro import micro, one

RANDOM = 400


def test_a_problem_by_hand() -> None:
    """Blocks of 4 tokens and 10 bytes: 9 tokens at least, 100 asked, 2 reserved blocks."""
    asked = one(100, fit="capacity", min_capacity=9)
    found = need(micro(5, **asked, pools=[{"name": "p", "bytes": 10, "reserved_blocks": 2}]))
    assert found.least.blocks == {"p": 3}
    assert found.asked.blocks == {"p": 25}
    assert found.least.pool_bytes == {"r0": {"p": 50}}
    assert found.asked.bytes == {"r0": {"load": 0, "prefill": 270, "decode": 270}}
    (batch,) = found.asked.batches
    (request,) = batch.requests
    assert (request.name, request.capacity, request.history, request.count) == ("q", 100, 99, 1)
    assert (request.blocks, batch.raw, batch.shared) == ({"c": 25}, {"p": 25}, {"p": 0})


def test_a_prefix_is_shared_and_the_utilization_divides_once() -> None:
    requests = [{"name": "a", "capacity": 20, "count": 3}, {"capacity": 0, "count": 5}]
    batch = {"name": "b", "shared_prefix": 8, "requests": requests}
    problem = micro(batches=[batch], resume_utilization="1/2")
    (found,) = need(problem).least.batches
    assert [each.blocks for each in found.requests] == [{"c": 3}, {"c": 0}]
    assert (found.raw, found.shared, found.blocks) == ({"p": 11}, {"p": 2}, {"p": 22})


def test_chunks_options_and_open_counts() -> None:
    choices = [{"name": "w", "options": [{"name": "a", "bytes": 9}, {"name": "b", "bytes": 2}]}]
    prefill = {"requested": 8, "min": 2, "step": 2, "staging": [{"name": "s", "per_token": 1}]}
    found = need(micro(**one(5, fit="count", min_count=2), choices=choices, prefill=prefill))
    assert found.least.bytes["r0"] == {"load": 2, "prefill": 40 + 2 + 2, "decode": 42}
    assert found.asked.bytes["r0"] == {"load": 9, "prefill": 40 + 9 + 8, "decode": 49}


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="problem: expected a Problem"):
        need("problem.yaml")  # type: ignore[arg-type]


def replayed(problem: Problem, found: Need, chunk: int | None) -> None:
    """Hold every batch against blocks that the oracle allocates one by one."""
    for batch, mine in zip(problem.batches, found.batches, strict=True):
        loads = [
            needs.Load(each.capacity, each.history, each.count, request.caches)
            for each, request in zip(mine.requests, batch.requests, strict=True)
        ]
        raw = needs.raw_needs(problem, batch, loads, chunk)
        assert raw == mine.raw
        for pool in problem.pools:
            share = needs.headroom(problem, pool)
            assert (mine.blocks[pool.name] - 1) * share < raw[pool.name]
            assert raw[pool.name] <= mine.blocks[pool.name] * share
            assert mine.blocks[pool.name] <= found.blocks[pool.name]


def test_random_problems_equal_the_oracle_and_the_floors_of_their_plans() -> None:
    planned = 0
    for seed in range(RANDOM):
        problem = small_problem(seed)
        found = need(problem)
        chunks = problem.prefill.candidates if problem.prefill else (None,)
        replayed(problem, found.least, chunks[0])
        replayed(problem, found.asked, chunks[-1])
        if any(request.count is None for _, request in problem.fitted("count").values()):
            continue
        try:
            answer = plan(problem)
        except Infeasible:
            continue
        is_reduced = any(each.reduced for each in answer.requests)
        if not is_reduced and answer.prefill_chunk == chunks[-1]:
            planned += 1
            assert answer.floors == found.asked.blocks
    assert planned > RANDOM // 8
