"""Lines of a log of any size and content, those that may matter, with their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

LONGEST = 16 * 2**10
"""Bytes of a line that are looked at; what is beyond is skipped."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NO_FIGURE = re.compile(r"(?:\d[,.]?){1001,}")
"""Digits in one run that no engine prints and that Python does not read as a number."""


def lines_with(
    file: BinaryIO, needles: Iterable[bytes], progress: Callable[[int], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Numbers and texts of lines that hold a needle.

    Parameters
    ----------
    progress : called with the bytes that were read since the last call, now and then.
    """
    wanted = re.compile(b"|".join(map(re.escape, needles)))
    unreported = 0
    for number, raw in _lines(file):
        unreported += len(raw)
        if progress is not None and unreported > 2**20:
            progress(unreported)
            unreported = 0
        if wanted.search(raw):
            # A progress bar leaves several lines in one, parted by carriage returns.
            for part in raw.decode("utf-8", "replace").replace("\0", "").split("\r"):
                yield number, cleaned(part).strip()


def cleaned(text: str) -> str:
    """A line without the colours of a terminal, and without digits too many for a figure."""
    return _NO_FIGURE.sub("...", _COLOUR.sub("", text))


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while raw := file.readline(LONGEST):
        number += 1
        yield number, raw
        while raw and not raw.endswith(b"\n"):
            raw = file.readline(LONGEST)
