"""Random small problems that have no plan, and a judge that is asked about changes of them."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

from kvplan.models import Infeasible, InvalidProblem, Problem
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver import plan
from support.draw import Data
from support.instances import random_problem


def has_plan(problem: Problem) -> bool:
    """The judge: solver auto."""
    try:
        plan(problem)
    except Infeasible:
        return False
    return True


def works(data: Data, *overrides: str) -> bool:
    """Whether there is a plan after --set; what is malformed has none."""
    try:
        return has_plan(Problem.model_validate(apply_overrides(data, overrides)))
    except InvalidProblem:
        return False


def infeasible_problem(seed: int, **switches: bool) -> tuple[Data, Problem]:
    """Plain data of a problem without a plan: quotas shrink until nothing fits."""
    draw = random.Random(seed)
    data = random_problem(seed, **switches)
    while has_plan(problem := Problem.model_validate(data)):
        share = Fraction(draw.randint(20, 95), 100)
        data = {**data, "ranks": [_shrunk(rank, share) for rank in data["ranks"]]}
        if all(rank.quota_bytes <= 0 for rank in problem.ranks):
            return infeasible_problem(seed + 1_000_003, **switches)  # it needs no byte
    return data, problem


def _shrunk(rank: Data, share: Fraction) -> Data:
    if "quota" in rank:
        return {**rank, "quota": int(rank["quota"] * share)}
    memory: dict[str, Any] = dict(rank["memory"])
    for key in ("total", "free"):
        if key in memory:
            memory[key] = int(memory[key] * share)
    return {**rank, "memory": memory}
