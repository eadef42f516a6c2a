"""plan() of a problem with a placement: placed first, then its pools as any others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.models import CheckFailed, Disagreement, Plan, Problem
from kvplan.models.plan import PlacementPlan, Solver
from kvplan.solver.check.placement import placement_faults
from kvplan.solver.digest import digest_of, question_of
from kvplan.solver.place.answer import placement_of
from kvplan.solver.place.context_cap import capped, fitted_values, retold
from kvplan.solver.place.placed import placed
from kvplan.solver.place.search.placement_search import Placed, PlaceSearch
from kvplan.solver.place.shortfall import refused

if TYPE_CHECKING:
    from collections.abc import Callable


def plan_placed(
    problem: Problem,
    rest: Callable[[Problem], Plan],
    solver: Solver,
    reached: dict[str, int] | None = None,
) -> Plan:
    """Decide a placement, then let `rest` plan what is left with bytes by rank.

    Parameters
    ----------
    solver : "cp-sat" holds the search's placement against CP-SAT's.
    reached : values by goal that a like problem reached, guesses for this one; then this one's.

    Raises
    ------
    Infeasible : no placement fits; which space is short, by how much, and what would help.
    Disagreement : CP-SAT proves another answer than the search.
    CheckFailed : the placement breaks a rule; it is not returned.
    """
    search = PlaceSearch(problem)
    search.guesses = {} if reached is None else reached
    found = search.best()
    if found is None:
        raise refused(problem, search.program)
    if solver == "cp-sat":
        _confirm(problem, found)
    placement = placement_of(search.program, found)
    left = checked(problem, placement)
    answer = rest(left)
    if fitted_values(left, answer) != found.values.fitted:
        answer = rest(capped(left, found.values.fitted))
        answer = answer.model_copy(update={"requests": retold(answer, left)})
    status = "optimal" if found.is_proven and answer.status == "optimal" else "feasible"
    told = answer.model_copy(update={"placement": placement, "status": status})
    seals = {"digest": digest_of(told), "question": question_of(problem)}
    return told.model_copy(update=seals)


def checked(problem: Problem, placement: PlacementPlan) -> Problem:
    """The problem that a placement leaves, once the placement has passed its check.

    Raises
    ------
    CheckFailed : it breaks a rule.
    """
    broken = placement_faults(problem, placement)
    if broken:
        raise CheckFailed("the placement is wrong and was not returned: " + "; ".join(broken))
    return placed(problem, placement)


def _confirm(problem: Problem, found: Placed) -> None:
    """Let CP-SAT decide the final placement at the values found."""
    place = problem.place
    if place is None or place.is_staged or not found.is_proven:
        return
    search = PlaceSearch(problem, use_cpsat=True)
    objectives = search.objectives()
    other = search.decide(found.values, objectives, pipelined=found.decision.pipelined)
    cost = None if other is None else other.cost
    if search.decide.all_proven and cost != found.decision.cost:
        raise Disagreement(f"cp-sat places at {cost}, the search at {found.decision.cost}")
