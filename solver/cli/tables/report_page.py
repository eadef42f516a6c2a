"""kvplan report: one HTML page about a problem, to pass on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kvplan.solver.cli.options import Overrides, ProblemFile


def report(
    file: ProblemFile,
    out: Annotated[str, typer.Option(metavar="PAGE.html", help="Write the page to this file.")],
    overrides: Overrides = None,
) -> int:
    """Write one page with the plan, its budgets, what more memory buys, and the trade-offs."""
    from kvplan.models import Infeasible, Problem
    from kvplan.models.messages import one_line
    from kvplan.solver.explore.files import check_target, write_atomically

    target = Path(out)
    check_target(target, (".html",))
    problem = Problem.load(file, tuple(overrides or ()))

    from kvplan.solver.cli.solve import print_answer
    from kvplan.solver.pictures.html_report import html_report

    try:
        text = html_report(problem, Path(file).name)
    except Infeasible as refusal:
        print_answer(refusal, problem, as_json=False)
        return 1
    write_atomically(target, lambda part: part.write_text(text, encoding="utf-8"))
    sys.stdout.write(f"{one_line(str(target))}: {len(text) / 1e6:.1f} MB\n")
    return 0
