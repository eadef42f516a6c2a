"""kvplan verify: the oracle replays a plan and lists every rule that it breaks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kvplan.solver.cli.options import Overrides, ProblemFile

if TYPE_CHECKING:
    from kvplan.models import Plan

PlanFile = Annotated[
    str, typer.Argument(metavar="PLAN", help="What solve --json printed; - is standard input.")
]


def verify(file: ProblemFile, plan_file: PlanFile, overrides: Overrides = None) -> int:
    """Replay a plan against its problem; list violated rules."""
    from kvplan.models import InvalidProblem, Problem

    if file == plan_file == "-":
        raise InvalidProblem.at("PLAN", "a file where FILE is standard input", "- for both")
    problem = Problem.load(file, tuple(overrides or ()))
    plan = load_plan(plan_file)

    from kvplan.models.messages import one_line
    from kvplan.solver.digest import digest_of, question_of
    from kvplan.solver.oracle import check

    violations = [one_line(str(violation)) for violation in check(problem, plan)]
    if digest_of(plan) != plan.digest:
        violations.append(f"digest: expected {digest_of(plan)}, got {one_line(plan.digest)}")
    lines = list(violations)
    if plan.question and plan.question != question_of(problem):
        lines.append("question: the plan answers another problem than this one")
    found = f"{len(violations)} violated" if violations else "every rule holds"
    sys.stdout.write("\n".join([*lines, found]) + "\n")
    return 1 if violations else 0


def load_plan(source: str) -> Plan:
    """Read a plan.

    Raises
    ------
    InvalidProblem : not a file, no text, or no plan; paths begin with the file's name.
    """
    from pydantic import ValidationError

    from kvplan.models import InvalidProblem, Plan
    from kvplan.models.faults import faults_of
    from kvplan.models.loader import load_data

    data = load_data(source)
    name = "standard input" if source == "-" else source
    if data.get("status") == "infeasible":
        raise InvalidProblem.at(name, "a plan", "a refusal: nothing fitted")
    if not {"blocks", "proof"} & data.keys():
        got = "a problem" if {"pools", "caches"} & data.keys() else "another mapping"
        raise InvalidProblem.at(name, "a plan, as solve --json prints it", got)
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        faults = faults_of(error, Plan)
        raise InvalidProblem(
            fault._replace(path=f"{name}: {fault.path}" if fault.path else name) for fault in faults
        ) from None
