"""kvplan explore: a grid of scenarios in, a table out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvplan.solver.cli.options import Overrides, ProblemFile

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas

    from kvplan.solver.pictures.chart import Chart


def explore(
    file: ProblemFile,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="PATH=A:B:STEP",
            help="Vary a numeric field, such as ranks.*.quota=10GiB:80GiB:256MiB (or PATH=A,B,C). "
            "Repeatable: several fields make a grid, the last one varying fastest. Also "
            "variant=NAME,none and goals=A > B,B > A.",
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
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Share the rows out to N processes."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help='Share the rows out to a Ray cluster; "local" starts one on this machine.',
        ),
    ] = None,
    overrides: Overrides = None,
) -> int:
    """Solve a problem for many values of its fields; print a table as CSV, or write it."""
    from kvplan.models import Problem

    changes = read_changes(vary)
    target = target_of(out)
    problem = Problem.load(file, tuple(overrides or ()))

    from kvplan.solver.explore import explore as explored

    try:
        with progress_bar() as progress, executor_of(workers, ray) as executor:
            table = explored(
                problem, changes, progress=progress, executor=executor, keep_beside=target
            )
    except KeyboardInterrupt:
        _say_what_is_kept(target)
        raise
    if target is not None:
        write(table, target, lambda: sweep_charts_of(table, changes))
    print_table(table, target, as_json=as_json, in_bytes=_byte_fields(changes))
    return 0 if (table["status"] != "infeasible").any() else 1


def _say_what_is_kept(target: Path | None) -> None:
    from kvplan.solver.explore.sharing.kept_parts import are_kept

    if target is not None and are_kept(target):
        typer.echo("stopped; finished parts are kept: the same command goes on", err=True)


def sweep_charts_of(table: pandas.DataFrame, changes: dict[str, str]) -> Sequence[Chart]:
    """Import what draws on first use."""
    from kvplan.solver.pictures.of_table import sweep_charts

    return sweep_charts(table, changes)


def write(table: pandas.DataFrame, target: Path, charts: Callable[[], Sequence[Chart]]) -> None:
    """Write a table, or draw it, as the ending of the file says."""
    from kvplan.solver.explore.files import PICTURES, write_table

    if target.suffix.lower() not in PICTURES:
        write_table(table, target)
        return
    from kvplan.solver.pictures.write import write_charts

    write_charts(charts(), target)


@contextmanager
def executor_of(workers: int | None, ray: str | None) -> Iterator[Executor | None]:
    """Processes of this machine, or a Ray cluster; None: neither was asked for.

    Raises
    ------
    InvalidProblem : both were, or Ray cannot be reached.
    """
    if workers is not None and ray is not None:
        from kvplan.models import InvalidProblem

        raise InvalidProblem.at("--ray", "one of --workers and --ray", "both")
    if ray is not None:
        from kvplan.solver.explore.sharing.on_ray import RayExecutor

        with RayExecutor(None if ray == "local" else ray) as cluster:
            yield cluster
    elif workers is not None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield pool
    else:
        yield None


def target_of(out: str | None, suffixes: tuple[str, ...] | None = None) -> Path | None:
    """Read --out.

    Raises
    ------
    InvalidProblem : a file that could not be written.
    """
    if out is None:
        return None
    from kvplan.solver.explore.files import PICTURES, TABLES, check_target

    check_target(Path(out), suffixes or (*TABLES, *PICTURES))
    return Path(out)


def read_changes(texts: list[str], form: str = "PATH=A:B:STEP") -> dict[str, str]:
    """Read every --vary.

    Raises
    ------
    InvalidProblem : no PATH=VALUES, or a path that comes twice.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.messages import shown
    from kvplan.solver.explore.outer import OUTER

    changes: dict[str, str] = {}
    for text in texts:
        path, equals, values = text.rpartition("=")
        if text.partition("=")[0].strip() in OUTER:  # the names behind it may hold any text
            path, equals, values = text.partition("=")
        if not equals or not path.strip():
            raise InvalidProblem.at("--vary", form, shown(text))
        if path.strip() in changes:
            raise InvalidProblem.at("--vary", "each field once", f"{shown(path.strip())} twice")
        changes[path.strip()] = values
    return changes


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int | None], None] | None]:
    """A bar on standard error while rows are solved, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("rows", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rows", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _byte_fields(changes: dict[str, str]) -> tuple[str, ...]:
    """Fields whose values have a unit."""
    return tuple(path for path, values in changes.items() if values.rstrip()[-1:] == "B")


def print_table(
    table: pandas.DataFrame,
    target: Path | None,
    *,
    as_json: bool,
    in_bytes: Collection[str] = (),
) -> None:
    """Print JSON, a line about the file that was written, a table to read on a terminal, or CSV."""
    if as_json:
        plain = table.astype(object).where(table.notna(), None)
        sys.stdout.write(json.dumps(plain.to_dict("records")) + "\n")
    elif target is not None:
        from kvplan.models.messages import one_line

        counts = table["status"].value_counts(sort=False)
        found = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        sys.stdout.write(f"{len(table)} rows ({found}) in {one_line(str(target))}\n")
    elif sys.stdout.isatty():
        from kvplan.solver.report import show
        from kvplan.solver.report.scenario_table import scenario_document

        show(scenario_document(table, in_bytes), sys.stdout)
    else:
        sys.stdout.write(table.to_csv(index=False, lineterminator="\n"))
