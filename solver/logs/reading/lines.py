"""Lines of a log of any size and content, those that may matter, with their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

LONGEST = 16 * 2**10
"""Bytes of a line that are looked at; what is beyond is skipped."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NARROWEST, _HEAD = 60, 2**16
"""Columns of a terminal at least, and bytes in which its width is looked for."""
_HEADED = re.compile(
    rb".{0,60}?(?:\d\d:\d\d:\d\d|\b(?:INFO|WARNING|WARN|ERROR|DEBUG)\b|pid=|\]<std|^[\w.-]+ *\| )|"
    rb"(?:llama|ggml|load|print|common|srv|slot|main|init|build|\[TM\]|\[TensorRT|\[RANK)"
)
"""How a line begins that an engine or a collector has begun."""
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
    for number, raw in _unwrapped(file):
        unreported += len(raw)
        if progress is not None and unreported > 2**20:
            progress(unreported)
            unreported = 0
        if wanted.search(raw):
            # A progress bar leaves several lines in one, parted by carriage returns.
            for part in raw.decode("utf-8", "replace").replace("\0", "").split("\r"):
                yield number, cleaned(part).strip()


class _Wrapped:
    """A log copied from a terminal, which cuts lines at its width.

    Attributes
    ----------
    width : columns that no line exceeds; 0 where they are too few for a terminal.
    is_sure : several lines are that wide; behind a single one only the rest of a word goes on.
    heads : how lines begin that follow a shorter one, digits alike.
    """

    def __init__(self, file: BinaryIO) -> None:
        peek = getattr(file, "peek", None)
        lines = peek(_HEAD)[:_HEAD].split(b"\n")[:-1] if peek is not None else []
        lines = [line.rstrip(b"\r") for line in lines]
        width = max(map(len, lines), default=0)
        full = [len(line) == width for line in lines]
        self.width = width if width >= _NARROWEST else 0
        self.is_sure = sum(full) > 1
        self.heads = {
            _shape(line) for line, is_cut in zip(lines, [False, *full], strict=False) if not is_cut
        }

    def goes_on(self, before: bytes, text: bytes) -> bool:
        """Whether a line behind a full one is its rest."""
        if not text or _HEADED.match(text) or _shape(text) in self.heads:
            return False
        return self.is_sure or (before + text)[len(before) - 1 :][:2].isalnum()


def _shape(text: bytes) -> bytes:
    return re.sub(rb"\d", b"0", text[:5])


def _unwrapped(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines, with the parts put together that a terminal has cut them into."""
    wrapped = _Wrapped(file)
    if not wrapped.width:
        yield from _lines(file)
        return
    held, is_cut = (0, b""), False
    for number, raw in _lines(file):
        text = raw.rstrip(b"\r\n")
        if is_cut and len(held[1]) < LONGEST and wrapped.goes_on(held[1], text):
            held = held[0], held[1] + text
        else:
            if held[0]:
                yield held
            held = number, text
        is_cut = len(text) == wrapped.width
    if held[0]:
        yield held


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
