"""kvplan frontier: the best trade-offs between two or three goals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from kvplan.solver.cli.explore import print_table, progress_bar, target_of
from kvplan.solver.cli.options import Overrides, ProblemFile
from kvplan.solver.cli.solve import print_answer


def frontier(
    file: ProblemFile,
    goals: Annotated[
        str,
        typer.Option(
            metavar="A,B[,C]",
            help="Two or three variables to trade against each other, such as "
            "capacity:long,prefill. A step behind one (capacity:long:4096) leaves fewer rows.",
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the table to a .csv or .parquet file."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table as one JSON document, a list of rows.")
    ] = False,
    overrides: Overrides = None,
) -> int:
    """List every best trade-off between goals, and the quota at which each begins to fit."""
    from kvplan.models import Infeasible, Problem

    target = target_of(out)
    problem = Problem.load(file, tuple(overrides or ()))

    from kvplan.solver.frontier import frontier as found

    try:
        with progress_bar() as told:
            table = found(problem, goals.split(","), progress=told and partial(_tell, told))
    except Infeasible as refusal:
        print_answer(refusal, problem, as_json=as_json)
        return 1
    if target is not None:
        from kvplan.solver.explore.files import write_table

        write_table(table, target)
    print_table(table, target, as_json=as_json)
    return 0


def _tell(told: Callable[[int, int | None], None], found: int) -> None:
    """Nobody knows how many there will be."""
    told(found, None)
