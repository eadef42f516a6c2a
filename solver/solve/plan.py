"""plan(): which solver answers, and what it proves."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from kvplan.kernels.search.search import Search
from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.plan import Solver
from kvplan.models.problem import as_problem
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.solve.confirm import held_against_search
from kvplan.solver.solve.replayed import replayed
from kvplan.solver.solve.resizable import plan_formulation

if TYPE_CHECKING:
    from kvplan.solver.solve.on_device import Device, Kernel

SOLVERS = get_args(Solver)


def plan(
    problem: Problem,
    *,
    solver: Solver = "auto",
    deadline: float | None = None,
    replay: bool = False,
    device: Any = None,
    kernel: Kernel = "arrays",
) -> Plan:
    """Solve a problem.

    Parameters
    ----------
    problem : what is asked.
    solver : "auto": the nested search where its answer is a proof, else CP-SAT with the search's
        point and bounds. "cp-sat": the whole integer program. "bisect": the search alone, which
        says what it proves.
    deadline : wall seconds for CP-SAT; None: a fixed amount of work, about two seconds. Then the
        best checked plan so far is returned, status "feasible" unless the search has proven it.
    replay : let the oracle replay the plan block by block as well (0.2 to 0.6 ms for a problem of
        usual size); `proof.replayed` records it.
    device : with solver "bisect": None is the host, "cpu" torch tensors there, "cuda", "cuda:1",
        ... a device of torch. The plan is the same; the host answers what the device's
        search cannot (linear constraints, weighted goals), and a note says why.
    kernel : with a device: "arrays", or "triton", one fused launch where that takes the problem.

    Raises
    ------
    Infeasible : nothing fits; what is short, where, and by how many bytes.
    Undecided : no plan was found and none was ruled out: by "bisect" under linear constraints, or
        by the deadline.
    InvalidProblem : the problem, or an argument, is invalid; torch or the device is missing.
    SolverError : kvplan failed; never a wrong plan.
    """
    check_arguments(solver, deadline)
    on = device_of(device, kernel, solver)
    if as_problem(problem).place is not None:
        rest = partial(
            plan, solver=solver, deadline=deadline, replay=replay, device=device, kernel=kernel
        )
        return _placed(problem, rest, solver)
    formulation = formulate(problem)
    answer = plan_formulation(formulation, solver=solver, deadline=deadline, on=on)
    return replayed(answer, problem) if replay else answer


def device_of(device: Any, kernel: Kernel, solver: str) -> Device | None:
    """The device of a call; None: the host, for which nothing is imported."""
    if device is None and kernel == "arrays":
        return None
    from kvplan.solver.solve.on_device import read_device

    return read_device(device, kernel, solver)


def solve_confirmed(
    problem: Problem,
    *,
    solver: Solver = "cp-sat",
    deadline: float | None = None,
    device: Any = None,
) -> Plan:
    """Solve with one solver, compare the search's answer where both are proofs, replay.

    `device` is as for `plan`.

    Raises
    ------
    Disagreement : two proven plans differ; the message prints both.
    CheckFailed : the oracle's replay objects to the plan.
    Infeasible, InvalidProblem, SolverError : as `plan` does.
    """
    check_arguments(solver, deadline)
    on = device_of(device, "arrays", solver)
    if as_problem(problem).place is not None:
        rest = partial(solve_confirmed, solver=solver, deadline=deadline, device=device)
        return _placed(problem, rest, solver)
    formulation = formulate(problem)
    search = Search(formulation.instance)
    answer = plan_formulation(formulation, search, solver=solver, deadline=deadline, on=on)
    return replayed(held_against_search(answer, formulation, search), problem)


def _placed(problem: Problem, rest: Callable[[Problem], Plan], solver: Solver) -> Plan:
    """Place layers and experts first; loaded on first use."""
    from kvplan.solver.place.planned import plan_placed

    return plan_placed(problem, rest, solver)


def check_arguments(solver: str, deadline: float | None) -> None:
    """Reject an unknown solver and an invalid deadline."""
    if solver not in SOLVERS:
        raise InvalidProblem.at("solver", f"one of {', '.join(SOLVERS)}", repr(solver))
    if deadline is None:
        return
    is_number = isinstance(deadline, int | float) and not isinstance(deadline, bool)
    if not is_number or not (deadline >= 0 and math.isfinite(deadline)):
        raise InvalidProblem.at("deadline", "seconds of at least 0", repr(deadline))
