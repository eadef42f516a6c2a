"""A formulation answered: by the nested search where that is a proof, else by CP-SAT from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.kernels.search.over_shares import within_shares
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer
from kvplan.models import Disagreement, Plan, SolverError
from kvplan.models.plan import Solver
from kvplan.solver.answer.assembled_plan import assemble
from kvplan.solver.answer.credit import Credit
from kvplan.solver.formulate.formulation import Formulation
from kvplan.solver.solve.bisect import incumbent_of, obeys
from kvplan.solver.solve.by_search import refusal_of, searched_plan

if TYPE_CHECKING:
    from kvplan.solver.solve.on_device import Device


def solve_formulation(
    formulation: Formulation,
    search: Search | None = None,
    *,
    solver: Solver = "auto",
    deadline: float | None = None,
    on: Device | None = None,
) -> Plan:
    """`plan` on a formulation that is built already; arguments are not checked."""
    search = Search(formulation.instance) if search is None else search
    if on is not None:
        from kvplan.solver.solve.on_device import solve_on

        return solve_on(on, formulation, search)
    found = incumbent_of(search)
    if found is None:
        if solver == "cp-sat":
            _confirm_infeasible(search, deadline)
        raise refusal_of(formulation, search)
    if found.exact and solver == "auto":
        return assemble(formulation, search, found, Credit(solver, "nested"))
    if solver == "bisect":
        return searched_plan(formulation, search, found, solver)
    return _by_cpsat(formulation, search, found, solver, deadline)


def _by_cpsat(
    formulation: Formulation,
    search: Search,
    found: Answer,
    solver: Solver,
    deadline: float | None,
) -> Plan:
    """CP-SAT from the search's point; the search's own answer where CP-SAT has none."""
    try:
        from kvplan.solver.cpsat import TooLargeError, Verdict, solve_program
    except ImportError as error:
        return _instead(formulation, search, found, solver, f"OR-Tools is missing: {error}")
    instance, use_bounds = formulation.instance, solver == "auto"
    try:
        solved = solve_program(instance, found, use_bounds=use_bounds, deadline=deadline)
    except TooLargeError:
        why = "the figures leave CP-SAT's 64-bit range"
        return _instead(formulation, search, found, solver, why)
    except (RuntimeError, SolverError) as error:
        return _instead(formulation, search, found, solver, f"CP-SAT failed: {error}")
    if solved.verdict is Verdict.INFEASIBLE:
        if obeys(search, found.point):
            raise Disagreement("the search found a plan where cp-sat proves that none exists")
        raise refusal_of(formulation, search)
    ended = "the default time was over" if deadline is None else "the deadline passed"
    if solved.answer is None:
        note = f"{ended} before CP-SAT found a plan; this one is the search's"
        return searched_plan(formulation, search, found, solver, notes=(note,))
    if found.exact and not solved.answer.exact:
        note = f"{ended} before CP-SAT proved its plan; this one is the search's"
        return searched_plan(formulation, search, found, solver, notes=(note,))
    credit = Credit(solver, "cp-sat", solved.deterministic_time)
    return assemble(formulation, search, within_shares(search, solved.answer), credit)


def _instead(
    formulation: Formulation, search: Search, found: Answer, solver: Solver, why: str
) -> Plan:
    """What happens when CP-SAT cannot answer: the search does, unless CP-SAT was asked for."""
    if solver == "cp-sat":
        raise SolverError(f"{why}; solver auto or bisect answers without it")
    return searched_plan(formulation, search, found, "auto", notes=(f"solver: {why}",))


def _confirm_infeasible(search: Search, deadline: float | None) -> None:
    """Let CP-SAT confirm the refusal where it can."""
    try:
        from kvplan.solver.cpsat import TooLargeError, refutes
    except ImportError as error:
        raise SolverError(f"OR-Tools is missing: {error}") from None
    try:
        refuted = refutes(search.instance, deadline)
    except TooLargeError:
        return
    if refuted is False:
        raise Disagreement("cp-sat found a plan where the search proves that none exists")
