"""A formulation answered: by the nested search where that is a proof, else by CP-SAT from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer
from kvplan.models import Disagreement, Plan, SolverError, Undecided
from kvplan.models.plan import Solver
from kvplan.solver.answer.assemble import assemble
from kvplan.solver.answer.credit import Credit
from kvplan.solver.formulate.formulation import Formulation
from kvplan.solver.solve.bisect import mended, obeys, search

if TYPE_CHECKING:
    from kvplan.models import Infeasible
    from kvplan.solver.solve.device import Device


def solve_formulation(
    formulation: Formulation,
    nested: Search | None = None,
    *,
    solver: Solver = "auto",
    deadline: float | None = None,
    on: Device | None = None,
) -> Plan:
    """`plan` on a formulation that is built already; arguments are not checked."""
    nested = Search(formulation.instance) if nested is None else nested
    if on is not None:
        from kvplan.solver.solve.device import solve_on

        return solve_on(on, formulation, nested)
    found = search(nested)
    if found is None:
        if solver == "cp-sat":
            _confirm_infeasible(nested, deadline)
        raise _refusal(formulation, nested)
    if found.exact and solver == "auto":
        return assemble(formulation, nested, found, Credit(solver, "nested"))
    if solver == "bisect":
        return _by_search(formulation, nested, found, solver)
    return _by_cpsat(formulation, nested, found, solver, deadline)


def _refusal(formulation: Formulation, nested: Search) -> Infeasible:
    """Why nothing fits; what writes it is loaded when it is needed."""
    from kvplan.solver.answer.refusal import infeasible

    return infeasible(formulation, nested)


def plan_by_search(formulation: Formulation, nested: Search, notes: tuple[str, ...]) -> Plan:
    """What solver bisect answers on the host, with notes that say why it was asked there."""
    found = search(nested)
    if found is None:
        raise _refusal(formulation, nested)
    return _by_search(formulation, nested, found, "bisect", notes)


def held_against_search(answer: Plan, formulation: Formulation, nested: Search) -> Plan:
    """A plan, confirmed by the search where CP-SAT proved it and the search proves its own.

    Raises
    ------
    Disagreement : two proven plans differ; the message prints both.
    """
    if answer.status != "optimal" or answer.proof.certificate != "cp-sat":
        return answer
    bracket = search(nested)
    if bracket is None:
        raise Disagreement(f"cp-sat found a plan where the search found none: {answer.blocks}")
    if not bracket.exact:
        return answer
    other = assemble(formulation, nested, bracket, Credit("bisect", "nested"))
    if other.digest != answer.digest:
        raise Disagreement(f"cp-sat: {_decisions(answer)}; search: {_decisions(other)}")
    proof = answer.proof.model_copy(update={"certificate": "cp-sat+nested"})
    return answer.model_copy(update={"proof": proof})


def _decisions(plan: Plan) -> str:
    wanted = {"blocks", "prefill_chunk", "expert_slots", "choices", "copies", "requests"}
    return plan.model_dump_json(include=wanted)


def _by_search(
    formulation: Formulation,
    nested: Search,
    found: Answer,
    solver: Solver,
    notes: tuple[str, ...] = (),
) -> Plan:
    """The search's answer, mended where it breaks a linear constraint."""
    answer = found if obeys(nested, found.point) else mended(nested, found)
    if answer is None:
        why = "".join(f" ({note})" for note in notes)
        raise Undecided(
            "the search found no plan that obeys the linear constraints, and proves nothing of "
            f"them{why}: solver cp-sat decides"
        )
    certificate = "nested" if answer.exact else "search"
    return assemble(formulation, nested, answer, Credit(solver, certificate, notes=notes))


def _by_cpsat(
    formulation: Formulation,
    nested: Search,
    found: Answer,
    solver: Solver,
    deadline: float | None,
) -> Plan:
    """CP-SAT from the search's point; the search's own answer where CP-SAT has none."""
    try:
        from kvplan.solver.cpsat import TooLargeError, Verdict, solve_program
    except ImportError as error:
        return _instead(formulation, nested, found, solver, f"OR-Tools is missing: {error}")
    instance, use_bounds = formulation.instance, solver == "auto"
    try:
        solved = solve_program(instance, found, use_bounds=use_bounds, deadline=deadline)
    except TooLargeError:
        why = "the figures leave CP-SAT's 64-bit range"
        return _instead(formulation, nested, found, solver, why)
    except (RuntimeError, SolverError) as error:
        return _instead(formulation, nested, found, solver, f"CP-SAT failed: {error}")
    if solved.verdict is Verdict.INFEASIBLE:
        if obeys(nested, found.point):
            raise Disagreement("the search found a plan where cp-sat proves that none exists")
        raise _refusal(formulation, nested)
    ended = "the default time ended" if deadline is None else "the deadline ended"
    if solved.answer is None:
        note = f"{ended} before CP-SAT had a plan: this one is the search's"
        return _by_search(formulation, nested, found, solver, notes=(note,))
    if found.exact and not solved.answer.exact:
        note = f"{ended} before CP-SAT had its proof: this one is the search's"
        return _by_search(formulation, nested, found, solver, notes=(note,))
    credit = Credit(solver, "cp-sat", solved.deterministic_time)
    return assemble(formulation, nested, solved.answer, credit)


def _instead(
    formulation: Formulation, nested: Search, found: Answer, solver: Solver, why: str
) -> Plan:
    """What happens when CP-SAT cannot answer: the search does, unless CP-SAT was asked for."""
    if solver == "cp-sat":
        raise SolverError(f"{why}; solver auto or bisect answers without it")
    return _by_search(formulation, nested, found, "auto", notes=(f"solver: {why}",))


def _confirm_infeasible(nested: Search, deadline: float | None) -> None:
    """Have CP-SAT refute the problem too, where it can."""
    try:
        from kvplan.solver.cpsat import TooLargeError, refutes
    except ImportError as error:
        raise SolverError(f"OR-Tools is missing: {error}") from None
    try:
        refuted = refutes(nested.instance, deadline)
    except TooLargeError:
        return
    if refuted is False:
        raise Disagreement("cp-sat found a plan where the search proves that none exists")
