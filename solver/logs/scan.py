"""Logs to starts: every reader sees the lines that it has a needle for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kvplan.models import InvalidProblem
from kvplan.models.errors import Fault
from kvplan.models.messages import shown
from kvplan.solver.logs.atom import AtomReader
from kvplan.solver.logs.lines import lines_with
from kvplan.solver.logs.record import RankLog, Reader
from kvplan.solver.logs.sglang import SglangReader
from kvplan.solver.logs.trtllm import TrtllmReader
from kvplan.solver.logs.verdict import Start, starts_of
from kvplan.solver.logs.vllm import VllmReader

_READERS: tuple[Callable[[], Reader], ...] = (AtomReader, VllmReader, SglangReader, TrtllmReader)
Progress = Callable[[int], None]


def scan(sources: Sequence[str], progress: Progress | None = None) -> list[Start]:
    """Read logs ("-" is standard input), one after the other, and judge every start in them.

    Logs that hold one rank each, of the same engine, are the ranks of one start.

    Raises
    ------
    InvalidProblem : a log cannot be read, or none has a line of a known engine.
    """
    found = [(source, _records(source, progress)) for source in sources]
    if not any(records for _, records in found):
        expected = "memory lines of ATOM, vLLM, SGLang or TensorRT-LLM"
        raise InvalidProblem(Fault(_name(source), expected, "none") for source, _ in found)
    return [start for engine in _engines(found) for start in _starts(engine, found)]


def _engines(found: Sequence[tuple[str, dict[str, list[RankLog]]]]) -> list[str]:
    return list(dict.fromkeys(engine for _, records in found for engine in records))


def _starts(engine: str, found: Sequence[tuple[str, dict[str, list[RankLog]]]]) -> Iterator[Start]:
    logs = [(_name(source), records[engine]) for source, records in found if engine in records]
    if len(logs) > 1 and all(len(records) == 1 for _, records in logs):
        joined = [records[0] for _, records in logs]
        for number, record in enumerate(joined):
            record.label = str(number)
        yield from starts_of(engine, f"{len(logs)} logs", joined)
        return
    for name, records in logs:
        yield from starts_of(engine, name, records)


def _name(source: str) -> str:
    return "standard input" if source == "-" else source


def _records(source: str, progress: Progress | None) -> dict[str, list[RankLog]]:
    """What every reader found in a log, engines without a rank left out."""
    readers = [make() for make in _READERS]
    needles = [needle for reader in readers for needle in reader.needles]
    with _opened(source) as file:
        for number, text in lines_with(file, needles, progress):
            for reader in readers:
                if any(needle.decode() in text for needle in reader.needles):
                    reader.read(number, text)
    return {reader.engine: ranks for reader in readers if (ranks := reader.ranks())}


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    try:
        if source == "-":
            yield sys.stdin.buffer
        else:
            with Path(source).open("rb") as file:
                yield file
    except OSError as error:
        raise InvalidProblem.at(source, "a readable file", error.strerror or "error") from None
    except ValueError as error:  # a path with a NUL byte
        raise InvalidProblem.at(shown(source), "the path of a file", str(error)) from None
