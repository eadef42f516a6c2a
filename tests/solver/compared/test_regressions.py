"""Instances that once went wrong; each says what went wrong, and the oracle says what is right."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible, InvalidProblem, Problem
from kvplan.solver import plan, solve_confirmed
from kvplan.solver.oracle import best, check

# A constraint wants the smaller capacity although a larger one needs fewer blocks.
SMALL_CAPACITY = """
ranks: [{name: g, quota: 1000}]
pools: [{name: P, bytes: 10}]
caches:
- {name: a, kind: window, window: 1, keep: live, tokens_per_block: 2}
- {name: b, kind: window, window: 1, keep: live, tokens_per_block: 3}
batches: [{name: b, requests: [{name: q, capacity: 20, history: 20, fit: capacity}]}]
constraints: [{terms: {"capacity:q": 1}, max: 1}]
"""
# The least worthwhile value of a curve is no multiple that a pool may have.
CURVE_AND_MULTIPLE = """
ranks: [{name: g, quota: 1000}]
pools: [{name: Q, bytes: 10, multiple_of: 4}]
goals: [{maximize: {"blocks:Q": 1}, curves: {"blocks:Q": [[0, 0], [7, 10]]}}]
fill: none
"""
# A weighted goal that falls, under a constraint whose mending is a guess.
FALLING_GOAL = """
ranks: [{name: g, quota: 5}]
pools: [{name: Q, bytes: 1}, {name: R, bytes: 1}]
caches: [{name: c, pool: Q, kind: window, window: 2, keep: live, tokens_per_block: 2}]
batches: [{name: B, requests: [{name: q, capacity: 9, fit: capacity, min_capacity: 6}]}]
goals: [{maximize: {"capacity:q": "-5/7"}}]
constraints: [{terms: {"capacity:q": -1, "blocks:R": 3}, min: 1, max: 1}]
"""
# A request of count 0 holds no flight of its batch.
NOBODY_IN_FLIGHT = """
ranks: [{name: g, quota: 100}]
tokens_per_block: 4
pools: [{name: P, bytes: 10}]
caches: [{name: c, kind: chunked, chunk: 8, in_flight: 60, in_flight_per: batch}]
batches: [{name: b, requests: [{name: q, capacity: 9, fit: capacity, count: 0}]}]
"""
# The fewest blocks of a pool are its own, not those beside another pool's fewest.
SHARES_AND_A_FLOOR_FOR_TWO = """
ranks: [{name: g, quota: 600}]
pools: [{name: P, bytes: 30, min_blocks: 6}, {name: R, bytes: 20}]
constraints: [{terms: {"blocks:P": 1, "blocks:R": 3}, min: 15}]
fill: {shares: {R: 0.5, P: 0.25}}
"""
ALL = {
    "small capacity": SMALL_CAPACITY,
    "curve and multiple": CURVE_AND_MULTIPLE,
    "falling goal": FALLING_GOAL,
    "nobody in flight": NOBODY_IN_FLIGHT,
    "shares and a floor for two": SHARES_AND_A_FLOOR_FOR_TWO,
}


@pytest.mark.parametrize("name", ALL)
def test_it_equals_the_oracle(name: str) -> None:
    problem = Problem.parse(ALL[name])
    truth = best(problem)
    for solver in ("auto", "cp-sat"):
        if truth is None:
            with pytest.raises(Infeasible):
                plan(problem, solver=solver)
            continue
        answer = plan(problem, solver=solver)
        assert (answer.status, answer.blocks) == ("optimal", dict(truth.blocks))
        requests = {r.name: (r.capacity, r.history, r.count) for r in answer.requests}
        assert requests == dict(truth.requests)
        assert check(problem, answer) == []
        solve_confirmed(problem)


def test_windows_that_never_repeat_together_are_refused_by_name() -> None:
    text = """
ranks: [{name: a, quota: 1GiB}]
pools: [{name: p, bytes: 1}]
caches:
- {name: c, kind: window, keep: live, window: 77, tokens_per_block: 2147483647}
- {name: d, kind: window, keep: live, window: 77, tokens_per_block: 3}
batches: [{name: b, requests: [{name: r, capacity: 4611686018427387904, fit: capacity}]}]
"""
    with pytest.raises(InvalidProblem) as caught:
        plan(Problem.parse(text))
    assert str(caught.value) == (
        "caches: expected live windows whose tokens_per_block repeat together soon, "
        "got 3 and 2147483647"
    )


def test_a_note_leaves_later_choices_open() -> None:
    problem = Problem.parse("""
ranks: [{name: g, quota: 100}]
pools: [{name: P, bytes: 30}]
caches: [{name: s, kind: state}]
batches: [{name: b, requests: [{name: q, capacity: 0, fit: count, count: 4}]}]
choices: [{name: ch, options: [{name: dense, bytes: 10}, {name: tiled, bytes: 0}]}]
""")
    note = "count:q: requested 4, clamped to 3: limited by rank g in prefill (20 B short of 4)"
    assert plan(problem).notes[0] == note


def test_a_resize_to_the_same_quota_keeps_a_weighted_goal() -> None:
    problem = Problem.parse("""
ranks: [{name: g, quota: 1000}]
pools: [{name: P, bytes: 10}]
caches: [{name: s, kind: full}]
prefill: {requested: 8, min: 1}
batches: [{name: b, requests: [{name: q, capacity: 500, fit: capacity}]}]
goals: [{maximize: {"capacity:q": 1, prefill: -1}}]
constraints: [{terms: {"capacity:q": 1}, max: 300}]
""")
    first = plan(problem)
    assert first.prefill_chunk == 1
    assert first.resize(1000).digest == first.digest
    assert first.resize(900).requests == first.resize(1000).requests
