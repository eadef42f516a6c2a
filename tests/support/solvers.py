"""Plans that every solver agrees on and the oracle accepts."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from kvplan.models import Infeasible, Plan, Problem, Undecided
from kvplan.solver import oracle, plan

Solver = Literal["auto", "cp-sat", "bisect"]
SOLVERS: tuple[Solver, ...] = ("auto", "cp-sat", "bisect")


def agreed(problem: Problem) -> Plan:
    """The plan of solver auto; CP-SAT's is the same, and the search's where it is a proof."""
    answer = plan(problem)
    assert answer.status == "optimal"
    assert list(oracle.check(problem, answer)) == []
    assert plan(problem, solver="cp-sat").digest == answer.digest
    try:
        searched = plan(problem, solver="bisect")
    except Undecided:
        assert problem.constraints  # it may find no point that obeys them
    else:
        assert searched.status == "feasible" or searched.digest == answer.digest
    return answer


def refused(problem: Problem) -> Infeasible:
    """The refusal that every solver gives."""
    texts = set()
    for solver in SOLVERS:
        with pytest.raises((Infeasible, Undecided)) as caught:
            plan(problem, solver=solver)
        if isinstance(caught.value, Infeasible):
            texts.add(str(caught.value))
        else:
            assert solver == "bisect"
            assert problem.constraints
    assert len(texts) == 1
    with pytest.raises(Infeasible) as refusal:
        plan(problem)
    return refusal.value


def refusal_of(problem: Problem) -> Infeasible | None:
    """Why solver auto refuses a problem; None where it has a plan."""
    try:
        plan(problem)
    except Infeasible as refusal:
        return refusal
    return None


def changed(problem: Problem, **sections: Any) -> Problem:
    """The same problem with some sections replaced."""
    data = problem.model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate({**data, **sections})


def values_of(answer: Plan) -> dict[str, Any]:
    """Goal values by label."""
    return {goal.goal: goal.value for goal in answer.proof.bound}
