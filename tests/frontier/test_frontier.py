"""The Pareto front: nothing dominated, nothing missing, and where each point begins to fit."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import pytest

from kvplan.models import Infeasible, InvalidProblem, Problem
from kvplan.models.goals import Constraint, Goal
from kvplan.models.reading.variables import known_variables
from kvplan.solver import oracle, plan
from kvplan.solver.frontier import frontier
from support.instances import random_problem

Point = tuple[int, ...]
MOST_CELLS = 150


def enumerated(problem: Problem, goals: list[str], steps: list[int]) -> set[Point]:
    """The front by enumeration, all goals but the first under a linear row for each value."""
    best: dict[Point, int] = {}
    tops = [_most(problem, goal) for goal in goals[1:]]
    lows = [_least(problem, goal) for goal in goals[1:]]
    if prod(top - low + 1 for low, top in zip(lows, tops, strict=True)) > MOST_CELLS:
        raise ValueError("too many cells")
    for least in product(*(range(low, top + 1) for low, top in zip(lows, tops, strict=True))):
        if any(value % step for value, step in zip(least, steps[1:], strict=True)):
            continue
        rows = tuple(
            Constraint(terms=_terms(problem, goal), min=value)
            for goal, value in zip(goals[1:], least, strict=True)
        )
        first = (Goal(maximize={goals[0]: Fraction(1)}),)
        changed = problem.model_copy(
            update={"goals": first, "constraints": (*problem.constraints, *rows)}
        )
        found = oracle.best(changed)
        if found is not None:
            best[least] = int(found.goals[0]) // steps[0] * steps[0]
    points = {(first, *least) for least, first in best.items()}
    return {p for p in points if not any(q != p and _covers(q, p) for q in points)}


def _covers(left: Point, right: Point) -> bool:
    return all(a >= b for a, b in zip(left, right, strict=True))


def _most(problem: Problem, goal: str) -> int:
    first = problem.model_copy(update={"goals": (Goal(maximize={goal: Fraction(1)}),)})
    found = oracle.best(first)
    assert found is not None
    return int(found.goals[0])


def _options(problem: Problem, goal: str) -> list[str]:
    return [o.name for c in problem.choices if f"choice:{c.name}" == goal for o in c.options]


def _least(problem: Problem, goal: str) -> int:
    return 1 - len(_options(problem, goal)) if goal.startswith("choice:") else 0


def _terms(problem: Problem, goal: str) -> dict[str, Fraction]:
    """The goal as a linear form; a taken option is worth what stands before it, below zero."""
    options = _options(problem, goal)
    if not options:
        return {goal: Fraction(1)}
    return {f"{goal}={option}": Fraction(-index) for index, option in enumerate(options)}


def points_of(problem: Problem, goals: list[str], steps: list[int]) -> set[Point]:
    from kvplan.solver.frontier.goal_axes import read_axes
    from kvplan.solver.frontier.trade_offs import trade_offs

    texts = [f"{g}:{s}" if s > 1 else g for g, s in zip(goals, steps, strict=True)]
    found = trade_offs(problem, read_axes(problem, texts))
    for point in found:
        assert list(oracle.check(point.asked, point.plan)) == []
    return {point.values for point in found}


def drawn(seed: int, number: int) -> tuple[Problem, list[str]] | None:
    problem = Problem.model_validate(random_problem(seed, weighted=False))
    free = [name for name, why in known_variables(problem).items() if not why and "=" not in name]
    names = [name for name in free if not name.startswith("copies:")]
    goals = [names[(seed + 3 * index) % len(names)] for index in range(number)]
    return (problem, goals) if len(set(goals)) == number else None


@pytest.mark.parametrize("seed", range(60))
def test_two_goals_as_enumerated(seed: int) -> None:
    """Steps of one to three tokens, blocks or slots."""
    instance = drawn(seed, 2)
    if instance is None:
        return
    problem, goals = instance
    if not fits(problem):
        with pytest.raises(Infeasible):
            frontier(problem, goals)
        return
    steps = [1 + seed % 3, 1 + seed // 3 % 3]
    steps = [1 if goal.startswith("choice:") else s for goal, s in zip(goals, steps, strict=True)]
    try:
        expected = enumerated(problem, goals, steps)
    except ValueError:  # too large to enumerate
        return
    assert points_of(problem, goals, steps) == expected


@pytest.mark.parametrize("seed", range(100, 130))
def test_three_goals_as_enumerated(seed: int) -> None:
    instance = drawn(seed, 3)
    if instance is not None and fits(instance[0]):
        problem, goals = instance
        try:
            expected = enumerated(problem, goals, [1, 1, 1])
        except ValueError:  # too large to enumerate
            return
        assert points_of(problem, goals, [1, 1, 1]) == expected


def fits(problem: Problem) -> bool:
    try:
        plan(problem)
    except Infeasible:
        return False
    return True


SERVER = {
    "ranks": [{"name": "r0", "quota": 10_000}, {"name": "r1", "quota": 9_000}],
    "tokens_per_block": 4,
    "pools": [{"name": "kv", "bytes": 100}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [
        {"name": "b", "requests": [{"name": "long", "capacity": 200, "fit": "capacity"}]},
    ],
    "prefill": {
        "requested": 64,
        "min": 16,
        "step": 16,
        "staging": [{"name": "activations", "per_token": 100}],
    },
    "consumers": [{"name": "weights", "bytes": {"r0": 500, "r1": 700}}],
}


def test_the_table_has_goals_decisions_and_least_quotas() -> None:
    table = frontier(Problem.model_validate(SERVER), ["prefill", "capacity:long"])
    rows = table[["prefill", "capacity:long", "blocks:kv", "status"]].values.tolist()
    # r1 has 9,000 - 700 = 8,300 bytes: chunk x 100 of staging, the rest in blocks of 4 tokens.
    assert rows == [
        [64, 76, 19, "optimal"],
        [48, 140, 35, "optimal"],
        [32, 200, 51, "optimal"],
    ]
    assert table["least_quota:r1"].tolist() == [9_000, 9_000, 700 + 3_200 + 5_000]
    assert table["least_quota:r0"].tolist() == [8_800, 8_800, 500 + 3_200 + 5_000]


def test_a_point_fits_at_its_least_quota_and_not_a_byte_below() -> None:
    """With granules of the quota ("auto") as well, whose steps are tried on both sides."""
    data = {
        **SERVER,
        "ranks": [{"name": "r0", "quota": "4.1GiB"}],
        "pools": [{"name": "kv", "bytes": "1MiB", "granule": "auto"}],
        "consumers": [],
        "prefill": {**SERVER["prefill"], "staging": [{"name": "a", "per_token": "60MiB"}]},  # type: ignore[dict-item]
    }
    table = frontier(Problem.model_validate(data), ["prefill", "capacity:long"])
    assert len(table) > 0
    for row in table.to_dict("records"):
        least = int(row["least_quota:r0"])
        asked = {
            **data,
            "prefill": {**data["prefill"], "min": row["prefill"], "requested": row["prefill"]},  # type: ignore[dict-item]
        }
        request = {
            "name": "long",
            "capacity": 200,
            "fit": "capacity",
            "min_capacity": row["capacity:long"],
        }
        asked["batches"] = [{"name": "b", "requests": [request]}]
        for quota, expected in ((least, True), (least - 1, False)):
            asked["ranks"] = [{"name": "r0", "quota": quota}]
            assert fits(Problem.model_validate(asked)) is expected


def test_copies_can_be_traded() -> None:
    typical = {"name": "t", "requests": [{"name": "short", "capacity": 40}]}
    data = {**SERVER, "batches": [*SERVER["batches"], typical], "fill": {"batch": "t"}}  # type: ignore[misc]
    table = frontier(Problem.model_validate(data), ["copies:t", "prefill"])
    # 8,300 bytes: a copy is 10 blocks, 1,000 bytes; a chunk of 16 tokens 1,600.
    assert table[["copies:t", "prefill"]].values.tolist() == [[6, 16], [5, 32], [3, 48], [1, 64]]


@pytest.mark.parametrize(
    ("goals", "message"),
    [
        (["prefill"], "--goals: expected two or three goals, as capacity:long,prefill, got 1"),
        (
            "prefill",
            "--goals: expected two or three goals, as capacity:long,prefill, got 'prefill'",
        ),
        (["prefill", "prefill"], "--goals: expected each goal once, got 'prefill' twice"),
        (["prefill", "slots"], "--goals: expected a variable: "),
        (["prefill:0", "capacity:long"], "--goals: expected a step: "),
        (
            ["count:long", "prefill"],
            "--goals: expected a request with fit: count (--set batches.b.requests.long.fit=count",
        ),
    ],
)
def test_bad_goals(goals: list[str], message: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        frontier(Problem.model_validate(SERVER), goals)
    assert str(caught.value.faults[0]).startswith(message)


def test_too_many_points_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvplan.solver.frontier.trade_offs.MOST_POINTS", 2)
    with pytest.raises(InvalidProblem, match="at most 2 trade-offs; a step leaves fewer"):
        frontier(Problem.model_validate(SERVER), ["prefill", "capacity:long"])
