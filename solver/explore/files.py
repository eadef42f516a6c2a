"""A table to a file: whole, or not at all."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.models import InvalidProblem
from kvplan.models.messages import shown

if TYPE_CHECKING:
    import pandas

_SUFFIXES = (".csv", ".parquet")


def check_target(path: Path) -> None:
    """Refuse, before anything is solved, what could not be written.

    Raises
    ------
    InvalidProblem : an unknown ending, no such folder, no right to write, or pyarrow is missing.
    """
    suffix, name, folder = path.suffix.lower(), shown(str(path)), path.resolve().parent
    if suffix not in _SUFFIXES:
        raise InvalidProblem.at("--out", f"a file ending in {' or '.join(_SUFFIXES)}", name)
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        expected = "pyarrow for a .parquet file (pip install 'kvplan[parquet]'), or a .csv file"
        raise InvalidProblem.at("--out", expected, name)
    if path.is_dir() or not folder.is_dir():
        raise InvalidProblem.at("--out", "a file in a folder that exists", name)
    if not os.access(folder, os.W_OK):
        raise InvalidProblem.at("--out", "a folder that can be written to", name)


def write_table(table: pandas.DataFrame, path: Path) -> None:
    """Write a table beside its target and move it there once it is complete."""
    target = path.resolve()  # the file that a link leads to is replaced, not the link
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if path.suffix.lower() == ".parquet":
            table.to_parquet(part, index=False)
        else:
            table.to_csv(part, index=False, lineterminator="\n")
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
