"""kvplan check-log: what the ranks of a server measured, by its own logs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kvplan.solver.report.document import Document

_LARGE_BYTES = 10 * 2**20

LogFiles = Annotated[
    list[str], typer.Argument(metavar="LOG...", help="Logs of a server; - is standard input.")
]


def check_log(
    logs: LogFiles,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of the report.")
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Show what changed between two logs and what moved the count."),
    ] = False,
) -> int:
    """Recompute the memory figures of a server log, and see whether its ranks agree.

    Reads ATOM, vLLM, SGLang, TensorRT-LLM, llama.cpp, ollama and LMDeploy, gzip or plain text.
    Several logs of one rank each are the ranks of one start; a log of many ranks is a start of its
    own. A failed start is explained in the engine's words, with what to change.
    """
    from kvplan.solver.logs.reading.scan import scan
    from kvplan.solver.report.of_logs.log_report import log_data, log_document

    if diff:
        return _diff(logs, as_json)
    with _progress(logs) as advance:
        starts = scan(logs, advance)
    _print(log_data(starts) if as_json else None, lambda: log_document(starts))
    return 0 if all(start.is_fine for start in starts) else 1


def _diff(logs: Sequence[str], as_json: bool) -> int:
    """Compare two logs, without checking either."""
    from kvplan.models import InvalidProblem
    from kvplan.solver.logs.diff import difference
    from kvplan.solver.logs.reading.scan import scan
    from kvplan.solver.report.of_logs.log_diff import diff_data, diff_document

    if len(logs) != 2:
        raise InvalidProblem.at("--diff", "two logs", f"{len(logs)}")
    with _progress(logs) as advance:
        found = difference(scan(logs[:1], advance), scan(logs[1:], advance), logs)
    _print(diff_data(found) if as_json else None, lambda: diff_document(found))
    return 0


def _print(data: Any, document: Callable[[], Document]) -> None:
    """Write a JSON document, or a report where there is no data."""
    if data is not None:
        import json

        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return
    from kvplan.solver.report import show

    show(document(), sys.stdout)


@contextmanager
def _progress(logs: Sequence[str]) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on a terminal's standard error, for large logs."""
    size = sum(path.stat().st_size for log in logs if log != "-" and (path := Path(log)).is_file())
    if size <= _LARGE_BYTES or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=size)
        yield lambda count: bar.advance(task, count)
