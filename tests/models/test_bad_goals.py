"""Mistakes in goals, constraints and fill: one line each."""

from __future__ import annotations

from typing import Any

from support.bad import NUMBER, POOL, Table, each_of, prefill, refused, request, small


def goal(written: Any) -> dict[str, Any]:
    return prefill() | {"goals": [written]}


GOALS: Table = {
    "unknown goal": (
        goal("capacity:nobody"),
        "goals[0]: expected a variable: one of prefill, experts, got 'capacity:nobody'",
    ),
    "misspelt goal": (goal("prefil"), "goals[0]: expected a variable: 'prefill', got 'prefil'"),
    "goal without its section": (
        goal("experts"),
        "goals[0]: expected an experts section, got 'experts'",
    ),
    "goal of a fixed request": (
        request(capacity=9) | {"goals": ["capacity:q"]},
        "goals[0]: expected a request with fit: capacity, got 'capacity:q'",
    ),
    "goal of the other fit": (
        request(capacity=9, fit="count") | {"goals": ["capacity:q"]},
        "goals[0]: expected a request with fit: capacity, got 'capacity:q'",
    ),
    "goal of an option": (
        small(choices=[{"name": "x", "options": [{"name": "a"}]}], goals=["choice:x=a"]),
        "goals[0]: expected choice:<name> (choice:<name>=<option> is for constraints), "
        "got 'choice:x=a'",
    ),
    "goal twice": (
        prefill() | {"goals": ["prefill", {"maximize": {"prefill": 2}}]},
        "goals[1]: expected each goal once, got 'prefill' as in goals[0]",
    ),
    "weighted goal twice": (
        prefill() | {"goals": [{"maximize": {"prefill": -1}}] * 2},
        "goals[1]: expected each goal once, got '-1 prefill' as in goals[0]",
    ),
    "goal as number": (
        goal(5),
        "goals[0]: expected a variable or {maximize: {variable: weight}}, got 5",
    ),
    "goal of nothing": (
        goal({"maximize": {}}),
        "goals[0].maximize: expected at least one variable, got none",
    ),
    "weight as text": (
        goal({"maximize": {"prefill": "much"}}),
        f"goals[0].maximize.prefill: expected {NUMBER}, got 'much'",
    ),
    "curve not sorted": (
        goal({"maximize": {"prefill": 1}, "curves": {"prefill": [[1, 1], [3, 2], [2, 5]]}}),
        "goals[0].curves.prefill[2]: expected values in increasing order, got 2 after 3",
    ),
    "curve of no points": (
        goal({"maximize": {"prefill": 1}, "curves": {"prefill": []}}),
        "goals[0].curves.prefill: expected a list of [value, worth], got []",
    ),
    "curve point": (
        goal({"maximize": {"prefill": 1}, "curves": {"prefill": [[1, "x"]]}}),
        f"goals[0].curves.prefill[0][1]: expected {NUMBER}, got 'x'",
    ),
    "curve of no weight": (
        goal({"maximize": {"prefill": 1}, "curves": {"experts": [[1, 1]]}}),
        "goals[0].curves.experts: expected a weight in maximize for each curve, got none",
    ),
    "goals as text": (small(goals="prefill"), "goals: expected a list, got 'prefill'"),
    "constraint of no bound": (
        small(constraints=[{"terms": {"prefill": 1}}]),
        "constraints[0]: expected min or max, got neither",
    ),
    "constraint of crossed bounds": (
        small(constraints=[{"terms": {"prefill": 1}, "min": 2, "max": 1}]),
        "constraints[0].min: expected min of at most max 1, got 2",
    ),
    "constraint of no terms": (
        small(constraints=[{"terms": {}, "min": 2}]),
        "constraints[0].terms: expected at least one variable, got none",
    ),
    "constraint of an unknown variable": (
        small(pools=[POOL], constraints=[{"terms": {"blocks:pp": 1}, "min": 2}]),
        "constraints[0].terms: expected a variable: 'blocks:p', got 'blocks:pp'",
    ),
    "constraint of a choice": (
        small(
            choices=[{"name": "x", "options": [{"name": "a"}]}],
            constraints=[{"terms": {"choice:x": 1}, "min": 0}],
        ),
        "constraints[0].terms: expected choice:x=<option> in a constraint, got 'choice:x'",
    ),
    "fill of nothing": (
        small(fill={}),
        "fill: expected one of batch, pools, shares, mix or none, got nothing",
    ),
    "fill of two forms": (
        small(pools=[POOL], fill={"pools": ["p"], "shares": {"p": 1}}),
        "fill: expected one of batch, pools, shares, mix or none, got pools and shares",
    ),
    "fill word": (
        small(fill="all"),
        "fill: expected \"none\" or one of {batch: }, {pools: }, {shares: }, {mix: }, got 'all'",
    ),
    "fill of an unknown batch": (
        request(capacity=1) | {"fill": {"batch": "bb"}},
        "fill.batch: expected 'b', got 'bb'",
    ),
    "fill of an unknown pool": (
        small(pools=[POOL], fill={"pools": ["zzz"]}),
        "fill.pools: expected one of p, got 'zzz'",
    ),
    "fill of a pool twice": (
        small(pools=[POOL], fill={"pools": ["p", "p"]}),
        "fill.pools[1]: expected each pool once, got 'p' again",
    ),
    "fill of no pools": (
        small(pools=[POOL], fill={"pools": []}),
        "fill.pools: expected at least one pool, got none",
    ),
    "shares above 1": (
        small(pools=[POOL, POOL | {"name": "q"}], fill={"shares": {"p": 0.8, "q": 0.3}}),
        "fill.shares: expected shares that sum to at most 1, got 11/10",
    ),
    "negative share": (
        small(pools=[POOL], fill={"shares": {"p": -0.1}}),
        "fill.shares.p: expected a share from 0 to 1, got -0.1",
    ),
}


@each_of(GOALS)
def test_a_mistake_in_the_goals_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]
