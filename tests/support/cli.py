"""Runs the command line: in this process, or as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kvplan.solver.cli import run


class Outcome(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


def run_kvplan(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Outcome:
    """Run a command in this process."""
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return Outcome(code, out, err)


def spawn(
    *arguments: str | Path,
    text: str = "",
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Outcome:
    """Run a command as a process of its own, `text` on its standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "kvplan.solver.cli", *map(str, arguments)],
        input=text.encode(),
        capture_output=True,
        cwd=folder,
        env=environment,
        timeout=100,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
