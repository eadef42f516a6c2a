"""kvplan verify: every leaf of a plan's JSON is changed in turn, and each change is noticed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from kvplan.models import Plan, Problem
from kvplan.solver import plan, solve_confirmed
from kvplan.solver.oracle import check
from kvplan.solver.verify import violations
from support.cases import load
from support.micro import micro, one
from support.rich import RICH

CASES = ("strata_plan", "kimi_k3_trade", "atom_llama3_8b_tp2", "trtllm_fit_to_quota")
UNTOLD = re.compile(r"proof\.(solver|deterministic_time|replayed)")
"""Who answered, how long CP-SAT took and whether a replay was made follow from no decision."""


def tampered(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every document with one leaf changed, or one entry of a list or mapping left out."""
    if isinstance(value, dict):
        for key, entry in value.items():
            at = f"{path}.{key}" if path else key
            yield at, {name: each for name, each in value.items() if name != key}
            yield at, {f"{name}x" if name == key else name: each for name, each in value.items()}
            yield from ((where, {**value, key: new}) for where, new in tampered(entry, at))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            at = f"{path}[{index}]"
            yield at, [*value[:index], *value[index + 1 :]]
            yield at, [*value[: index + 1], *value[index:]]
            for where, new in tampered(entry, at):
                yield where, [*value[:index], new, *value[index + 1 :]]
    else:
        yield from ((path, new) for new in other(value))


def other(leaf: Any) -> tuple[Any, ...]:
    """What a leaf may be changed to."""
    if isinstance(leaf, bool):
        return (not leaf,)
    if isinstance(leaf, int | float):
        return (leaf + 1, leaf - 1)
    if leaf is None:
        return (1, "x")
    swapped = {"optimal": "feasible", "declared": "measured", "cp-sat": "auto", "nested": "search"}
    return (f"{leaf}x", "", swapped.get(leaf, "solved"))


def is_noticed(problem: Problem, right: Plan, document: Any) -> bool:
    """Whether a document is no plan, the same one (a default left out), or objected to.

    A plan that says no question is one of an older kvplan.
    """
    try:
        answer = Plan.model_validate(document)
    except ValidationError:
        return True
    same = answer.question or answer.model_copy(update={"question": right.question}) != right
    return answer == right or not same or bool(violations(problem, answer))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("solver", ["auto", "cp-sat"])
def test_no_leaf_of_a_plan_can_be_changed_unnoticed(name: str, solver: Any) -> None:
    problem = load(name)
    answer = solve_confirmed(problem, solver=solver)
    document = json.loads(answer.model_dump_json())
    assert violations(problem, Plan.model_validate(document)) == []
    unnoticed = [
        path
        for path, changed in tampered(document)
        if not UNTOLD.match(path) and not is_noticed(problem, answer, changed)
    ]
    assert unnoticed == []


def test_plans_that_are_not_proven_are_right_too() -> None:
    """Bounds above the values, and notes that say who answered."""
    goal = {"maximize": {"capacity:q": 1, "prefill": 2, "blocks:p": -1}}
    prefill = {"requested": 40, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 1}]}
    problem = micro(100, prefill=prefill, **one(60, fit="capacity"), goals=[goal])
    answer = plan(problem, solver="bisect")
    assert answer.status == "feasible"
    assert violations(problem, answer) == []
    proven = answer.model_copy(update={"status": "optimal"})
    assert violations(problem, proven)[0].startswith("proof.status: expected optimal")
    noted = answer.model_copy(update={"notes": (*answer.notes, "solver: CP-SAT failed: x")})
    assert violations(problem, noted) == []


def test_a_problem_that_says_everything() -> None:
    for data in RICH.values():
        problem = Problem.model_validate(data)
        assert violations(problem, plan(problem)) == []


# --- what once was missed -----------------------------------------------------------------------


def test_goals_of_one_label_are_told_apart_by_their_place() -> None:
    flat = {"maximize": {"blocks:p": 1}, "curves": {"blocks:p": [[1, 1]]}}
    rising = {"maximize": {"blocks:p": 1}, "curves": {"blocks:p": [[1, 1], [9, 9]]}}
    pools = [{"name": "p", "bytes": 1}]
    problem = micro(10, pools=pools, caches=[], goals=[flat, rising])
    answer = plan(problem)
    assert check(problem, answer) == []
    assert [goal.value for goal in answer.proof.bound[:2]] == [1, 9]
    first, second, *rest = answer.proof.bound
    swapped = answer.proof.model_copy(update={"bound": (second, first, *rest)})
    found = check(problem, answer.model_copy(update={"proof": swapped}))
    assert [(each.where, each.rule) for each in found] == [
        ("proof.bound[0]", "figures"),
        ("proof.bound[1]", "figures"),
    ]


SHARED: dict[str, Any] = {
    "pools": [{"name": "a", "bytes": 1}, {"name": "b", "bytes": 1}],
    "caches": [],
    "fill": {"shares": {"a": "1/2"}},
}


@pytest.mark.parametrize(
    ("goals", "blocks", "broken"),
    [
        ([], (32, 0), False),
        ([], (33, 0), True),
        # A goal does not say which of the two: the share does.
        ([{"maximize": {"blocks:a": 1, "blocks:b": 1}}], (64, 0), True),
        ([{"maximize": {"blocks:a": 1, "blocks:b": 1}}], (32, 32), False),
        # A goal that wants one of them goes before its share.
        ([{"maximize": {"blocks:a": 2, "blocks:b": 1}}], (64, 0), False),
        (["blocks:a"], (64, 0), False),
    ],
)
def test_a_share_caps_what_the_fill_gives(
    goals: Any, blocks: tuple[int, int], broken: bool
) -> None:
    problem = micro(64, **SHARED, goals=goals)
    answer = plan(micro(64, **SHARED)).model_copy(
        update={"blocks": dict(zip("ab", blocks, strict=True))}
    )
    found = [each for each in check(problem, answer) if each.rule != "figures"]
    assert bool(found) == broken
    if broken:
        (violation,) = found
        assert str(violation).startswith("shares: a/r0: expected at most 32 B")


def test_a_share_below_the_floor_is_no_fault() -> None:
    problem = micro(64, **{**SHARED, "pools": [{"name": "a", "bytes": 1, "min_blocks": 40}]})
    assert plan(problem).blocks["a"] == 40
    assert check(problem, plan(problem)) == []
