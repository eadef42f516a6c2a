"""What every entry point returns: a plan that can be resized, or a refusal with advice."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kvplan.kernels.search.search import Search
from kvplan.models import Advice, Infeasible, Plan
from kvplan.models.inputs import QuotaLike
from kvplan.models.plan import Solver
from kvplan.solver.formulate.formulation import Formulation, Held, formulate
from kvplan.solver.resize import held_figures, held_problem
from kvplan.solver.solve.choose import solve_formulation

if TYPE_CHECKING:
    from kvplan.solver.solve.on_device import Device


def plan_formulation(
    formulation: Formulation,
    search: Search | None = None,
    *,
    solver: Solver = "auto",
    deadline: float | None = None,
    held: Held | None = None,
    on: Device | None = None,
) -> Plan:
    """A plan that can be resized, or a refusal that explains itself when it is asked.

    The plan remembers its problem, its device and what a resize holds. Arguments are checked by
    the caller.

    Parameters
    ----------
    search : the search, where it is compiled already.
    held : granules and floors of an earlier plan.
    on : where bisect searches, if not on the host.

    Raises
    ------
    Infeasible : nothing fits; conflict and remedies are computed on first use.
    """
    try:
        answer = solve_formulation(formulation, search, solver=solver, deadline=deadline, on=on)
    except Infeasible as refusal:
        refusal.advised_by(partial(_advice, formulation))
        raise
    return _resizable(answer, formulation, solver, deadline, held, on)


def _resizable(
    answer: Plan,
    formulation: Formulation,
    solver: Solver,
    deadline: float | None,
    held: Held | None = None,
    on: Device | None = None,
) -> Plan:
    """The plan, which remembers how to plan again for other quotas."""

    def resize(plan: Plan, quota: QuotaLike) -> Plan:
        problem = formulation.problem
        figures = held_figures(problem, plan, held)
        again = formulate(held_problem(problem, plan, quota), figures)
        return plan_formulation(again, solver=solver, deadline=deadline, held=figures, on=on)

    answer._resize = resize
    return answer


def _advice(formulation: Formulation) -> Advice:
    from kvplan.solver.explain.advise import (
        advise,  # loaded on first use of a refusal's details
    )

    return advise(formulation.problem, formulation.held)
