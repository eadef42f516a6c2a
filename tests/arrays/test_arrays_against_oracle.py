"""The batched search, through names and columns, gives the plan that enumeration finds."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.models import InvalidProblem, Problem
from kvplan.solver.oracle import best
from kvplan.solver.sweep.by_name import Sweep, fit
from support.instances import random_problem


def decisions(problem: Problem, sweep: Sweep, index: int) -> dict[str, Any] | None:
    """One scenario's decisions as the oracle writes them."""
    if not sweep.feasible[index]:
        return None
    options = [choice.options[int(at)] for choice, at in zip(
        problem.choices, sweep.options[index], strict=True
    )]  # fmt: skip
    names = [choice.name for choice in problem.choices]
    has_experts = problem.experts is not None
    return {
        "blocks": {
            pool.name: int(count)
            for pool, count in zip(problem.pools, sweep.blocks[index], strict=True)
        },
        "prefill_chunk": int(sweep.prefill[index]) if problem.prefill else None,
        "expert_slots": int(sweep.experts[index]) if has_experts else None,
        "expert_slots_in_prefill": int(sweep.kept[index]) if has_experts else None,
        "choices": dict(zip(names, (option.name for option in options), strict=True)),
    }


def enumerated(problem: Problem) -> dict[str, Any] | None:
    """The same by the oracle."""
    found = best(problem)
    if found is None:
        return None
    fields = ("blocks", "prefill_chunk", "expert_slots", "expert_slots_in_prefill", "choices")
    return {name: getattr(found, name) for name in fields}


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_quotas_give_what_enumeration_finds(seed: int) -> None:
    data = random_problem(seed, constraints=False, weighted=False, memory=False)
    quotas = [rank["quota"] for rank in data["ranks"]]
    try:
        problem = Problem.model_validate(data)
        shares = (100, 97, 70, 40)
        columns = {
            f"quota:{rank['name']}": [quota * share // 100 for share in shares]
            for rank, quota in zip(data["ranks"], quotas, strict=True)
        }
        sweep = fit(problem, columns)
    except InvalidProblem:
        return
    assert sweep.notes == ()
    assert bool(np.all(sweep.proven))
    for index in range(len(shares)):
        ranks = [
            {**rank, "quota": columns[f"quota:{rank['name']}"][index]} for rank in data["ranks"]
        ]
        scenario = Problem.model_validate({**data, "ranks": ranks})
        assert decisions(problem, sweep, index) == enumerated(scenario)
