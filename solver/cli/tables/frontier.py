"""kvplan frontier: the best trade-offs between two or three goals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kvplan.solver.cli.options import Overrides, ProblemFile
from kvplan.solver.cli.solve import print_answer
from kvplan.solver.cli.tables.explore import print_table, progress_bar, target_of, write

if TYPE_CHECKING:
    import pandas

    from kvplan.solver.pictures.chart import Chart


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
        typer.Option(
            metavar="FILE",
            help="Write a .csv, .jsonl or .parquet table, or a .png, .svg or .html picture.",
        ),
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
        write(table, target, lambda: front_charts_of(table))
    print_table(table, target, as_json=as_json)
    return 0


def front_charts_of(table: pandas.DataFrame) -> Sequence[Chart]:
    """Import what draws on first use."""
    from kvplan.solver.pictures.of_table import front_charts

    return front_charts(table)


def _tell(told: Callable[[int, int | None], None], found: int) -> None:
    """Nobody knows how many there will be."""
    told(found, None)
