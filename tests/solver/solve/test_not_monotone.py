"""Bounds on copies, shares beside weights, falling curves: what no bisection may answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.solver import plan, solve_confirmed

# More blocks of p would hold 2 copies of one token; with two tokens, 3 blocks hold one copy.
COPIES_CAPPED = """
ranks: [{name: r, quota: 4}]
tokens_per_block: 1
pools: [{name: p, bytes: 1}]
caches: [{name: w, kind: window, window: 2}]
batches: [{name: b, requests: [{name: q, capacity: 2, fit: capacity}]}]
constraints: [{terms: {"copies:b": 1}, max: 1}]
goals: ["blocks:p"]
"""
# The least capacity of `long` breaks the cap, its largest does not: `many` needs 1,024 blocks.
COPIES_CAPPED_BESIDE_A_BATCH = """
ranks: [{name: gpu, quota: 40GiB}]
pools: [{name: kv, bytes: 2MiB}]
caches: [{name: swa, kind: window, window: 4096}]
batches:
  - {name: long, requests: [{name: q, capacity: 262144, fit: capacity}]}
  - {name: many, requests: [{name: s, capacity: 4096, count: 4}]}
constraints: [{terms: {"copies:long": 1}, max: 4}]
"""
SHARES_BESIDE_WEIGHTS = """
ranks: [{name: r, quota: 64}]
pools: [{name: a, bytes: 1}, {name: b, bytes: 1}]
goals: [{maximize: {"blocks:a": 1, "blocks:b": 1}}]
fill: {shares: {a: 1/2}}
"""
FALLING_CURVE = """
ranks: [{name: r0, quota: 1GiB}]
tokens_per_block: 4
resume_utilization: 1/7
pools:
  - {name: p0, bytes: 1, reserved_blocks: 1}
  - {name: p1, bytes: 6, granule: 2}
  - {name: p2, buffers: [{name: a, bytes: 3}, {name: b, bytes: 5, granule: 4}]}
caches:
  - {name: c0, pool: p0, kind: state, extra_blocks: 2}
  - {name: c1, pool: p1, kind: full, tokens_per_block: 8, groups: 2, extra_blocks: 1, shards: 2}
  - {name: c2, pool: p2, kind: full}
batches: [{name: b0, requests: [{name: q, capacity: 10, history: 8, fit: capacity}]}]
goals:
  - maximize: {"blocks:p1": 3, "blocks:p2": 5}
    curves: {"blocks:p1": [[3, 0], [4, 4], [5, 1], [8, 1]], "blocks:p2": [[1, 9]]}
fill: {batch: b0}
"""


@pytest.mark.parametrize("solver", ["auto", "cp-sat"])
@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (COPIES_CAPPED, {"p": 3}),
        (COPIES_CAPPED_BESIDE_A_BATCH, {"kv": 1284}),
        (SHARES_BESIDE_WEIGHTS, {"a": 32, "b": 32}),
    ],
)
def test_it_has_its_best_plan(text: str, blocks: dict[str, int], solver: Any) -> None:
    answer = plan(Problem.parse(text), solver=solver)
    assert (answer.status, answer.blocks) == ("optimal", blocks)


def test_the_search_claims_no_proof_under_a_cap_on_copies() -> None:
    assert plan(Problem.parse(COPIES_CAPPED), solver="bisect").status == "feasible"
    assert solve_confirmed(Problem.parse(COPIES_CAPPED)).proof.certificate == "cp-sat"


@pytest.mark.parametrize("solver", ["auto", "cp-sat"])
def test_a_falling_curve_is_answered_within_seconds(solver: Any) -> None:
    started = time.process_time()
    answer = plan(Problem.parse(FALLING_CURVE), solver=solver)
    assert time.process_time() - started < 10
    assert answer.proof.bound[0].value == answer.proof.bound[0].bound == 48
    assert answer.status == "optimal"
    assert answer.copies == 3_007_680
