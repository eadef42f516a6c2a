"""A table to a file, written atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING
from zlib import crc32

from kvplan.models import InvalidProblem
from kvplan.models.messages import one_line, shown

if TYPE_CHECKING:
    import pandas

TABLES = (".csv", ".jsonl", ".parquet")
PICTURES = (".png", ".svg", ".html")
_LIBRARIES = {
    ".parquet": ("pyarrow", "parquet"),
    ".png": ("matplotlib", "plot"),
    ".svg": ("matplotlib", "plot"),
    ".html": ("plotly", "plot"),
}
"""What writes a file, and the extra that installs it."""


def check_target(path: Path, suffixes: tuple[str, ...] = TABLES) -> None:
    """Reject, before solving, a target that could not be written.

    Raises
    ------
    InvalidProblem : an unknown ending, no such folder, no right to write, or a library is missing.
    """
    suffix, name = path.suffix.lower(), shown(str(path))
    if suffix not in suffixes:
        raise InvalidProblem.at("--out", f"a file ending in {_either(suffixes)}", name)
    library, extra = _LIBRARIES.get(suffix, ("", ""))
    if library and find_spec(library) is None:
        other = ", or a .csv file" if ".csv" in suffixes else ""
        expected = f"{library} for a {suffix} file (pip install 'kvplan[{extra}]'){other}"
        raise InvalidProblem.at("--out", expected, name)
    try:
        target = path.resolve()
        is_file = target.parent.is_dir() and not target.is_dir()
        if is_file and os.access(target.parent, os.W_OK):
            _try_out(target)
    except (OSError, RuntimeError) as error:  # links in a circle are the latter before Python 3.13
        why = one_line(str(getattr(error, "strerror", None) or "links in a circle"))
        raise InvalidProblem.at("--out", "a file that can be written", f"{name} ({why})") from None
    if not is_file:
        raise InvalidProblem.at("--out", "a file in a folder that exists", name)
    if not os.access(target.parent, os.W_OK):
        raise InvalidProblem.at("--out", "a folder that can be written to", name)


def _either(suffixes: tuple[str, ...]) -> str:
    *others, last = suffixes
    return f"{', '.join(others)} or {last}" if others else last


def _try_out(target: Path) -> None:
    _remove_abandoned(target)
    part = _part_of(target)
    try:
        part.touch()
        with suppress(FileNotFoundError):
            target.lstat()  # says if the name is too long
    finally:
        part.unlink(missing_ok=True)


def _part_of(target: Path) -> Path:
    """A short name beside the target, unique to this process."""
    return target.with_name(f".{_key(target)}.{os.getpid()}.part")


def _key(target: Path) -> str:
    """The common part of the names of a target's partial files on this machine."""
    file, host = os.fsencode(target.name), node().encode()
    return f"{crc32(file):08x}.{crc32(host):08x}"


def _remove_abandoned(target: Path) -> None:
    """Remove partial files that killed runs left behind."""
    for part in target.parent.glob(f".{_key(target)}.*.part"):
        number = part.name.split(".")[-2]
        if number.isdecimal() and not _is_running(int(number)):
            part.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    """Whether a process of this machine is running; assume so where that is unknown."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def write_table(table: pandas.DataFrame, path: Path) -> None:
    """Write a table atomically, as its ending says."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        write_atomically(path, lambda part: table.to_parquet(part, index=False))
    elif suffix == ".jsonl":
        write_atomically(path, lambda part: table.to_json(part, orient="records", lines=True))
    else:
        write_atomically(path, lambda part: table.to_csv(part, index=False, lineterminator="\n"))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let something write beside its target first, then move it there."""
    target = path.resolve()  # the file that a link leads to is replaced, not the link
    part = _part_of(target)
    try:
        _remove_abandoned(target)
        write(part)
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
