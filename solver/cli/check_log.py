"""kvplan check-log: what the ranks of a server measured, by its own logs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

_LARGE_BYTES = 10 * 2**20

LogFiles = Annotated[
    list[str], typer.Argument(metavar="LOG...", help="Logs of a server; - is standard input.")
]


def check_log(
    logs: LogFiles,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of the report.")
    ] = False,
) -> int:
    """Recompute the memory figures of a server log, and see whether its ranks agree.

    Reads ATOM, vLLM, SGLang, TensorRT-LLM, llama.cpp, ollama and LMDeploy, compressed with gzip or
    not. Several logs of one rank each are the ranks of one start; a log of many ranks is a start of
    its own. A start that failed is explained in its own words, with what to change.
    """
    from kvplan.solver.logs.scan import scan
    from kvplan.solver.report.logs import log_data, log_document

    with _progress(logs) as advance:
        starts = scan(logs, advance)
    if as_json:
        import json

        sys.stdout.write(json.dumps(log_data(starts), indent=2) + "\n")
    else:
        from kvplan.solver.report import show

        show(log_document(starts), sys.stdout)
    return 0 if all(start.is_fine for start in starts) else 1


@contextmanager
def _progress(logs: Sequence[str]) -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal's standard error, where there is much to read."""
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
