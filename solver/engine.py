"""plan(): which engine answers, and what it proves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.problem import as_problem
from kvplan.solver.assemble import Engine
from kvplan.solver.known import compiled, shape_of
from kvplan.solver.shape import quotas_of
from kvplan.solver.solve import held_against_search, plan_formulation

if TYPE_CHECKING:
    from kvplan.solver.device import Device, Kernel

ENGINES = get_args(Engine)


def plan(
    problem: Problem,
    *,
    engine: Engine = "auto",
    deadline: float | None = None,
    device: Any = None,
    kernel: Kernel = "arrays",
) -> Plan:
    """Solve a problem.

    Parameters
    ----------
    problem : what is asked.
    engine : "auto": the nested search where its answer is a proof, else CP-SAT with the search's
        point and bounds. "cp-sat": the whole integer program. "bisect": the search alone, which
        says what it proves.
    deadline : seconds for CP-SAT; then the best checked plan so far is returned, status "feasible"
        unless the search has proven it.
    device : with engine "bisect": None is the host, "cpu" torch tensors there, "cuda", "cuda:1",
        ... a device of torch. The plan is the same; what the device's search does not take
        (linear constraints, weighted goals) the host's answers, and a note says why.
    kernel : with a device: "arrays", or "triton", one fused launch where that takes the problem.

    Raises
    ------
    Infeasible : nothing fits; what is short, where, and by how many bytes.
    InvalidProblem : the problem, or an argument, makes no sense; torch or the device is missing.
    EngineError : kvplan failed; never a wrong plan.
    """
    check_arguments(engine, deadline)
    on = device_of(device, kernel, engine)
    shape = shape_of(as_problem(problem))
    if shape.problem is not problem:
        return shape.plan(quotas_of(problem), lambda: problem, engine, deadline, on)
    return plan_formulation(
        shape.formulation, shape.nested, engine=engine, deadline=deadline, on=on
    )


def device_of(device: Any, kernel: Kernel, engine: str) -> Device | None:
    """The device of a call; None: the host, for which nothing is imported."""
    if device is None and kernel == "arrays":
        return None
    from kvplan.solver.device import read_device

    return read_device(device, kernel, engine)


def solve_confirmed(
    problem: Problem,
    *,
    engine: Engine = "cp-sat",
    deadline: float | None = None,
    device: Any = None,
) -> Plan:
    """Solve with one engine and hold the search's answer against it where both are proofs.

    `device` is as for `plan`.

    Raises
    ------
    Disagreement : two proven plans differ; the message prints both.
    Infeasible, InvalidProblem, EngineError : as `plan` does.
    """
    check_arguments(engine, deadline)
    on = device_of(device, "arrays", engine)
    formulation, nested = compiled(as_problem(problem))
    answer = plan_formulation(formulation, nested, engine=engine, deadline=deadline, on=on)
    return held_against_search(answer, formulation, nested)


def check_arguments(engine: str, deadline: float | None) -> None:
    """Refuse an unknown engine and a deadline that is no time."""
    if engine not in ENGINES:
        raise InvalidProblem.at("engine", f"one of {', '.join(ENGINES)}", repr(engine))
    if deadline is None:
        return
    is_number = isinstance(deadline, int | float) and not isinstance(deadline, bool)
    if not is_number or not (deadline >= 0 and math.isfinite(deadline)):
        raise InvalidProblem.at("deadline", "seconds of at least 0", repr(deadline))
