"""What a request lacks, byte for byte: with it it is granted, with a byte less it is not.

The judge plans for the request alone, under constraints that hold what was decided before it.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver import plan
from support import laws
from support.draw import Data
from support.infeasible import has_plan
from support.instances import random_problem

GIB, MIB = 2**30, 2**20


def test_a_note_and_a_binding_row_under_a_linear_constraint() -> None:
    """A count of 1,000 takes 300 blocks each, not the 256 that its tokens need."""
    request = {"name": "q", "capacity": 4096, "count": 1000, "fit": "count"}
    data: Data = {
        "ranks": [{"name": "r", "quota": GIB}],
        "pools": [{"name": "p", "bytes": MIB}],
        "caches": [{"name": "c", "kind": "full"}],
        "batches": [{"name": "b", "requests": [request]}],
        "constraints": [{"terms": {"blocks:p": 1, "count:q": -300}, "min": 0}],
    }
    answer = plan(Problem.model_validate(data))
    assert answer.notes == (
        "count:q: requested 1000, clamped to 3: "
        "limited by rank r in prefill (291.97 GiB short of 1000)",
    )
    assert answer.binding[0].next == {"count:q": 176 * MIB, "blocks:p": MIB}
    assert count_at(data, GIB + 176 * MIB) == 4
    assert count_at(data, GIB + 176 * MIB - 1) == 3


def count_at(data: Data, quota: int) -> int:
    ranks = [{"name": "r", "quota": quota}]
    return plan(Problem.model_validate({**data, "ranks": ranks})).requests[0].count


SWITCHES = {"memory": False, "weighted": False, "stages": False}


@pytest.mark.parametrize("start", range(0, 800, 100))
@pytest.mark.parametrize("constraints", [True, False])
def test_what_a_step_lacks_is_exact(start: int, constraints: bool) -> None:
    for seed in range(start, start + 100):
        data = random_problem(seed, constraints=constraints, **SWITCHES)
        data = laws.without_auto(data)
        if len(data["ranks"]) > 1 or "shares" in data.get("fill", {}):
            continue
        problem = Problem.model_validate(data)
        try:
            answer = plan(problem)
        except Infeasible:
            continue
        quota = problem.ranks[0].quota_bytes
        for variable, held in steps(problem, answer):
            lacking = [
                entry.next[variable] - entry.slack
                for entry in answer.binding
                if variable in entry.next
            ]
            where = (seed, variable)
            if not reaches(data, held, 2**50):  # max_blocks or a constraint rules it out
                continue
            assert lacking, where
            assert reaches(data, held, quota + max(lacking)), where
            if not shares_a_row(data):
                assert not reaches(data, held, quota + max(lacking) - 1), where


def shares_a_row(data: Data) -> bool:
    """Whether two variables could mend a row together: then what is named may not be the least."""
    for constraint in data["constraints"]:
        factors = [
            Fraction(str(factor))
            for name, factor in constraint["terms"].items()
            if not name.startswith("choice:")
        ]
        if "min" in constraint and sum(factor > 0 for factor in factors) > 1:
            return True
        if "max" in constraint and sum(factor < 0 for factor in factors) > 1:
            return True
    return False


def reaches(data: Data, held: list[Data], quota: int) -> bool:
    """Whether some plan keeps to further constraints at a quota."""
    ranks = [{**data["ranks"][0], "quota": quota}]
    wider = {**data, "ranks": ranks, "constraints": [*data["constraints"], *held]}
    return has_plan(Problem.model_validate({**wider, "goals": [], "fill": "none"}))


def steps(problem: Problem, answer: Plan) -> list[tuple[str, list[Data]]]:
    """Every variable that may grow, with its next value and all earlier goals as constraints."""
    decided = {goal.goal: int(goal.value) for goal in answer.proof.bound}
    names = list(decided)
    found = []
    for place, variable in enumerate(names):
        step = _next(problem, answer, variable)
        if step is not None:
            held = [_at_least(answer, name, decided[name]) for name in names[:place]]
            found.append((variable, [*held, {"terms": {variable: 1}, **step}]))
    return found


def _at_least(answer: Plan, name: str, value: int) -> Data:
    if name.startswith("choice:"):
        return {"terms": {f"{name}={answer.choices[name.removeprefix('choice:')]}": 1}, "min": 1}
    exact = {"max": value} if name.startswith("capacity:") else {}
    return {"terms": {name: 1}, "min": value, **exact}


def _next(problem: Problem, answer: Plan, variable: str) -> dict[str, int] | None:
    """One step more; exact where a larger value may need less. None: at its largest."""
    kind, _, name = variable.partition(":")
    if kind in ("capacity", "count"):
        request = next(entry for entry in answer.requests if entry.name == name)
        wanted = getattr(request.requested, kind)
        value = getattr(request, kind) + 1
        return None if wanted is not None and value > wanted else {"min": value, "max": value}
    if kind == "prefill" and problem.prefill is not None:
        larger = [c for c in problem.prefill.candidates if c > (answer.prefill_chunk or 0)]
        return {"min": larger[0], "max": larger[0]} if larger else None
    if kind == "experts" and problem.experts is not None:
        most, value = problem.experts.max_slots, (answer.expert_slots or 0) + 1
        return None if most is not None and value > most else {"min": value}
    if kind == "blocks":
        pool = next(each for each in problem.pools if each.name == name)
        return {"min": answer.blocks[name] - pool.reserved_blocks + pool.multiple_of}
    return None
