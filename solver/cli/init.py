"""kvplan init: a starter file to fill in."""

from __future__ import annotations

import shlex
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

STARTERS = {
    "llama.cpp": "llama.cpp.yaml",
    "vllm": "vllm.yaml",
    "manager": "manager.yaml",
    "moe": "demo.yaml",
}
_EDITOR = (
    "# yaml-language-server: $schema=kvplan.schema.json (kvplan schema > kvplan.schema.json)\n"
)


def init(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Where to write; - prints it. Nothing is overwritten."),
    ] = "kvplan.yaml",
    kind: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="[llama.cpp|vllm|manager|moe]",
            help="One card with llama.cpp, GPUs with vLLM, the pools and chunk of a KV-cache "
            "manager, or experts on a small card (moe).",
        ),
    ] = "llama.cpp",
) -> int:
    """Write a commented starter file that solves as it is."""
    text = starter(kind)
    name = shlex.quote(file)
    if file == "-":
        sys.stdout.write(text)
        return 0
    _write(Path(file), text.replace("THIS", name))
    sys.stdout.write(f"wrote {name}; change its figures to yours, then: kvplan solve {name}\n")
    return 0


def starter(kind: str) -> str:
    """The starter file of a kind.

    Raises
    ------
    InvalidProblem : no such kind.
    """
    if kind not in STARTERS:
        from kvplan.models import InvalidProblem
        from kvplan.models.messages import one_of, shown

        raise InvalidProblem.at("--for", one_of(STARTERS, kind), shown(kind))
    resource = files("kvplan.solver.data") / STARTERS[kind]
    return _EDITOR + resource.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    """Write a new file.

    Raises
    ------
    InvalidProblem : it is there already, or cannot be written.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.messages import shown

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidProblem.at(
            "FILE", "a new file", f"{shown(str(path))}, there already"
        ) from None
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or error
        raise InvalidProblem.at("FILE", "a file that can be written", f"{path}: {got}") from None
