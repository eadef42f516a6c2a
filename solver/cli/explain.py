"""kvplan explain: why a problem does not fit and what would help, or what limits its plan."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kvplan.solver.cli.options import Overrides, ProblemFile


def explain(
    file: ProblemFile,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of the report.")
    ] = False,
    overrides: Overrides = None,
) -> int:
    """Explain why nothing fits and what would help, or what limits the plan."""
    from kvplan.models import Infeasible, Problem

    problem = Problem.load(file, tuple(overrides or ()))

    from kvplan.solver.explain import explain as explain_problem

    try:
        explained = explain_problem(problem)
    except Infeasible as refusal:
        from kvplan.solver.cli.solve import print_answer

        print_answer(refusal, problem, as_json=as_json)
        return 1
    if as_json:
        from kvplan.solver.report.machine import json_of_explanation

        sys.stdout.write(json_of_explanation(explained, problem))
    else:
        from kvplan.solver.report import explanation_of, show

        show(explanation_of(explained, problem), sys.stdout)
    return 0
