"""From arguments to an exit code: known errors end as lines, not a traceback."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from kvplan.solver.cli.app import app

PLANNED, FOUND, BAD_INPUT, FAILED, INTERRUPTED = 0, 1, 2, 3, 130
_USAGE_ERROR = typer.BadParameter.__mro__[1]  # typer exports the subclass only


def main() -> NoReturn:
    """Run the command line of this process."""
    _prepare_streams()
    sys.exit(run(sys.argv[1:]))


def _prepare_streams() -> None:
    """Let a closed pipe end the process as with any filter, and print any name."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115 - lives as long as we do
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    0 a plan (or no finding), 1 infeasible, undecided or a violated plan, 2 bad input,
    3 kvplan itself failed, 130 interrupted.
    """
    command = typer.main.get_command(app)
    try:
        code = command.main(list(arguments), prog_name="kvplan", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        return _report(error, arguments)
    return int(code or 0)


def _report(error: Exception, arguments: Sequence[str]) -> int:
    """Print an error that kvplan knows and return its exit code; raise any other."""
    from kvplan.models.errors import InvalidProblem, KvplanError, Undecided

    if isinstance(error, InvalidProblem):
        return _say(*map(str, error.faults), code=BAD_INPUT)
    if isinstance(error, _USAGE_ERROR):
        return _say(f"kvplan: {' '.join(_usage(error, arguments).split())}", code=BAD_INPUT)
    if isinstance(error, Undecided):
        return _say(f"kvplan: undecided: {' '.join(str(error).split())}", code=FOUND)
    if isinstance(error, KvplanError):
        return _say(f"kvplan: {type(error).__name__}: {' '.join(str(error).split())}", code=FAILED)
    if isinstance(error, OSError):
        return _say(f"kvplan: {error.strerror or error}", code=FAILED)
    raise error


def _usage(error: BaseException, arguments: Sequence[str]) -> str:
    """What is wrong with a command line, and where to look."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "kvplan"
    option = getattr(error, "option_name", "--")
    if option.startswith("--"):
        text = error.format_message()  # type: ignore[attr-defined]
    else:  # -tp is read as -t -p
        written = next((each for each in arguments if each.startswith(option)), option)
        text = f"{path} has no option {written}; an engine's flags go to kvplan model CONFIG"
    return f"{text} (see {path} --help)"


def _say(*messages: str, code: int) -> int:
    for message in messages:
        print(message, file=sys.stderr)
    return code
