"""kvplan solve: a problem in, a plan or the reasons why there is none out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kvplan.solver.cli.options import Overrides, ProblemFile, deadline_of, device_of, solver_of

if TYPE_CHECKING:
    from kvplan.models import Infeasible, Plan, Problem


def solve(
    file: ProblemFile,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of the report.")
    ] = False,
    solver: Annotated[
        str,
        typer.Option(
            metavar="[cp-sat|auto|bisect]",
            help="cp-sat is confirmed by the search; auto starts CP-SAT only where the search "
            "leaves a gap; bisect is the search alone.",
        ),
    ] = "cp-sat",
    deadline: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="Answer by then with the best plan so far."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run the bisect search on a torch device, such as cuda or cuda:1 (cpu: torch "
            "tensors on the host); the plan is the same.",
        ),
    ] = None,
    overrides: Overrides = None,
    advise: Annotated[
        bool,
        typer.Option(
            "--advise",
            help="Where nothing fits, print the best plan under lowered floors (relax: in FILE) or "
            "else what would help, and exit with 0.",
        ),
    ] = False,
) -> int:
    """Solve a problem and print the plan with its budget table."""
    chosen, seconds = solver_of(solver), deadline_of(deadline)
    place = device_of(device, chosen)

    from kvplan.models import Infeasible, Problem

    problem = Problem.load(file, tuple(overrides or ()))

    from kvplan.solver import solve_confirmed

    answer: Plan | Infeasible
    try:
        answer = solve_confirmed(problem, solver=chosen, deadline=seconds, device=place)
    except Infeasible as refusal:
        answer = refusal
        if advise and problem.relax:
            from kvplan.solver.relaxed import relaxed_plan

            relaxed = relaxed_plan(problem, solver=chosen, deadline=seconds, device=place)
            answer = relaxed or refusal
    print_answer(answer, problem, as_json=as_json)
    return 1 if isinstance(answer, Infeasible) and not advise else 0


def print_answer(answer: Plan | Infeasible, problem: Problem, *, as_json: bool) -> None:
    """Print a plan or a refusal to standard output, as JSON or as a report."""
    if as_json:
        from kvplan.solver.report.machine import json_of

        sys.stdout.write(json_of(answer))
    else:
        from kvplan.solver.report import print_report

        print_report(answer, problem, sys.stdout)
