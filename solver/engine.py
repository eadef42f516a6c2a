"""plan(): which engine answers, and what it proves."""

from __future__ import annotations

import math
from typing import get_args

from kvplan.kernels.nested import Nested
from kvplan.kernels.ordered import solve
from kvplan.kernels.values import Answer, constraint_value, holds
from kvplan.models import Disagreement, InvalidProblem, Plan, Problem
from kvplan.solver.assemble import Engine, assemble, infeasible
from kvplan.solver.formulation import Formulation, formulate


def plan(problem: Problem, *, engine: Engine = "auto", deadline: float | None = None) -> Plan:
    """Solve a problem.

    Parameters
    ----------
    problem : what is asked.
    engine : "auto": the nested search where its answer is a proof, else CP-SAT with the search's
        point and bounds. "cp-sat": the whole integer program. "bisect": the search alone, which
        says what it proves.
    deadline : seconds for CP-SAT; the best checked plan so far is returned, status "feasible".

    Raises
    ------
    Infeasible : nothing fits; what is short, where, and by how many bytes.
    InvalidProblem : the problem, or an argument, makes no sense.
    EngineError : kvplan failed; never a wrong plan.
    """
    return solve_formulation(formulate(problem), engine=engine, deadline=deadline)


def solve_formulation(
    formulation: Formulation, *, engine: Engine = "auto", deadline: float | None = None
) -> Plan:
    """`plan` on a formulation that is built already."""
    _check_arguments(engine, deadline)
    nested = Nested(formulation.terms)
    bracket = solve(nested)
    if bracket is None:
        raise infeasible(formulation, nested)
    bracket = _with_constraints(nested, bracket)
    if engine == "bisect":
        return _by_search(formulation, nested, bracket)
    if engine == "auto" and bracket.exact:
        return assemble(formulation, nested, bracket, engine=engine, certificate="nested")
    return _by_cpsat(formulation, nested, bracket, engine, deadline)


def solve_confirmed(
    problem: Problem, *, engine: Engine = "cp-sat", deadline: float | None = None
) -> Plan:
    """Solve with one engine and hold the search's answer against it where both are proofs.

    Raises
    ------
    Disagreement : two proven plans differ; the message prints both.
    """
    formulation = formulate(problem)
    answer = solve_formulation(formulation, engine=engine, deadline=deadline)
    if engine != "cp-sat" or answer.status != "optimal":
        return answer
    nested = Nested(formulation.terms)
    bracket = solve(nested)
    if bracket is None:
        raise Disagreement(f"cp-sat found a plan where the search found none: {answer.blocks}")
    bracket = _with_constraints(nested, bracket)
    if not bracket.exact:
        return answer
    other = assemble(formulation, nested, bracket, engine="bisect", certificate="nested")
    if other.digest != answer.digest:
        raise Disagreement(f"cp-sat: {_decisions(answer)}; search: {_decisions(other)}")
    proof = answer.proof.model_copy(update={"certificate": "cp-sat+nested"})
    return answer.model_copy(update={"proof": proof})


def _decisions(plan: Plan) -> str:
    wanted = {"blocks", "prefill_chunk", "expert_slots", "choices", "copies", "requests"}
    return plan.model_dump_json(include=wanted)


def _check_arguments(engine: str, deadline: float | None) -> None:
    if engine not in get_args(Engine):
        raise InvalidProblem.at("engine", f"one of {', '.join(get_args(Engine))}", repr(engine))
    if deadline is not None and not (deadline >= 0 and math.isfinite(deadline)):
        raise InvalidProblem.at("deadline", "seconds of at least 0", repr(deadline))


def _with_constraints(nested: Nested, bracket: Answer) -> Answer:
    """The search's answer under linear constraints.

    Constraints only take points away: if the best point without them obeys them it is the best.
    """
    terms, demand = nested.terms, nested.demand
    obeys = all(
        holds(constraint, constraint_value(terms, demand, bracket.point, constraint))
        for constraint in terms.constraints
    )
    return bracket if obeys else bracket._replace(exact=False)


def _by_search(formulation: Formulation, nested: Nested, bracket: Answer) -> Plan:
    certificate = "nested" if bracket.exact else "search"
    return assemble(formulation, nested, bracket, engine="bisect", certificate=certificate)


def _by_cpsat(
    formulation: Formulation,
    nested: Nested,
    bracket: Answer,
    engine: Engine,
    deadline: float | None,
) -> Plan:
    from kvplan.solver.cpsat.engine import solve_program

    confirm = engine == "cp-sat"
    solved = solve_program(
        nested, bracket, margin=confirm, use_bounds=not confirm, deadline=deadline
    )
    if solved.answer is None:
        raise infeasible(formulation, nested)
    return assemble(
        formulation,
        nested,
        solved.answer,
        engine=engine,
        certificate="cp-sat",
        deterministic_time=solved.deterministic_time,
    )
