"""Logs to starts: every reader sees the lines that it has a needle for."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from kvplan.models import InvalidProblem
from kvplan.models.errors import Fault
from kvplan.models.messages import shown
from kvplan.models.reading.mistaken import unreadable
from kvplan.solver.logs.engines.log_atom import AtomReader
from kvplan.solver.logs.engines.log_llamacpp import LlamacppReader
from kvplan.solver.logs.engines.log_others import LmdeployReader, OllamaReader
from kvplan.solver.logs.engines.log_sglang import SglangReader
from kvplan.solver.logs.engines.log_trtllm import TrtllmReader
from kvplan.solver.logs.engines.log_vllm import VllmReader
from kvplan.solver.logs.failures import DEVICE_NEEDLES, device_failure, failure_of
from kvplan.solver.logs.reading.assemble import says_something
from kvplan.solver.logs.reading.lines import lines_with
from kvplan.solver.logs.reading.record import CORE, Failure, RankLog, Reader
from kvplan.solver.logs.verdict import Start, starts_of

_READERS: tuple[Callable[[], Reader], ...] = (
    AtomReader,
    VllmReader,
    SglangReader,
    TrtllmReader,
    LlamacppReader,
    OllamaReader,
    LmdeployReader,
)
_NAMES = "ATOM, vLLM, SGLang, TensorRT-LLM, llama.cpp, ollama or LMDeploy"
_HINTS = (
    ("SGLang", re.compile(r"\bsglang\b", re.IGNORECASE)),
    (
        "vLLM",
        re.compile(
            r"\bvllm\b|EngineCore|VllmWorker|\(Worker(?:_| )?(?:DP|PP|TP)\d|gpu_model_runner\.py",
            re.IGNORECASE,
        ),
    ),
    ("TensorRT-LLM", re.compile(r"tensorrt_llm|TensorRT-LLM|TRT-LLM")),
    ("LMDeploy", re.compile(r"\[TM\]|lmdeploy", re.IGNORECASE)),
    ("llama.cpp", re.compile(r"\bllama_|\bggml_")),
    ("ATOM", re.compile(r"\[atom |\batom/")),
)
UNKNOWN = "unknown engine"
Progress = Callable[[int], None]


def scan(
    sources: Sequence[str], progress: Progress | None = None, *, settings_suffice: bool = False
) -> list[Start]:
    """Read logs ("-" is standard input), one after the other, and judge every start in them.

    With `settings_suffice`, a log that names only its engine's settings is a start, too.
    Logs that hold one rank each, of the same engine, are the ranks of one start.

    Raises
    ------
    InvalidProblem : a log cannot be read, or none has a line of a known engine.
    """
    found = [(source, _records(source, progress, settings_suffice)) for source in sources]
    if not any(records for _, records in found):
        expected = f"memory lines of {_NAMES}"
        raise InvalidProblem(Fault(_name(source), expected, "none") for source, _ in found)
    return [start for engine in _engines(found) for start in _starts(engine, found)]


def _engines(found: Sequence[tuple[str, dict[str, list[RankLog]]]]) -> list[str]:
    return list(dict.fromkeys(engine for _, records in found for engine in records))


def _starts(engine: str, found: Sequence[tuple[str, dict[str, list[RankLog]]]]) -> Iterator[Start]:
    logs = [(_name(source), records[engine]) for source, records in found if engine in records]
    alone = [_only_rank(records) for _, records in logs] if len(logs) > 1 else []
    joined = [rank for rank in alone if rank is not None]
    if joined and len(joined) == len(logs):
        for number, record in enumerate(joined):
            record.label = str(number)
        yield from starts_of(engine, f"{len(logs)} logs", joined)
        return
    for name, records in logs:
        yield from starts_of(engine, name, records)


def _only_rank(records: Sequence[RankLog]) -> RankLog | None:
    """The one rank of a log, with what its core counted; None where a log holds more than that."""
    ranks = [record for record in records if record.label != CORE]
    cores = [record for record in records if record.label == CORE]
    if len(ranks) > 1 or len(cores) > 1 or len({record.start for record in records}) > 1:
        return None
    if not ranks:
        return cores[0]
    for core in cores:
        ranks[0].figures |= core.figures
        ranks[0].pairs += core.pairs
        ranks[0].traits |= core.traits
        ranks[0].failures += core.failures
    return ranks[0]


def _name(source: str) -> str:
    return "standard input" if source == "-" else source


def _records(
    source: str, progress: Progress | None, settings_suffice: bool
) -> dict[str, list[RankLog]]:
    """What every reader found in a log, engines without a rank left out."""
    readers = [make() for make in _READERS]
    needles = [*DEVICE_NEEDLES, *(needle for reader in readers for needle in reader.needles)]
    orphans: list[tuple[str, Failure]] = []
    with opened(source) as file:
        for number, text in lines_with(file, needles, progress):
            for reader in readers:
                if any(needle.decode() in text for needle in reader.needles):
                    reader.read(number, text)
            if any(needle.decode() in text for needle in DEVICE_NEEDLES):
                orphans += _of_the_device(readers, number, text)
    named = {reader.engine: ranks for reader in readers if (ranks := reader.ranks())}
    found = {engine: ranks for engine, ranks in named.items() if any(map(says_something, ranks))}
    if settings_suffice and not found and not orphans:
        return named
    for engine, failure in orphans:
        home = engine or next(iter(found), UNKNOWN)
        found.setdefault(home, [RankLog(CORE, failure.line)])[-1].failures.append(failure)
    return found


def _of_the_device(
    readers: Sequence[Reader], number: int, text: str
) -> Iterator[tuple[str, Failure]]:
    """Give what failed on the device to the engine that speaks; yield it where none does yet."""
    hint = next((engine for engine, pattern in _HINTS if pattern.search(text)), "")
    speaking = [reader for reader in readers if reader.phase is not None]
    chosen = [reader for reader in speaking if not hint or reader.engine == hint] or speaking
    if not chosen:
        failure = device_failure(hint, number, text, "load")
        if failure is not None:
            yield hint, failure
        return
    reader = chosen[-1]
    failure = device_failure(reader.engine, number, text, reader.phase or "load")
    has_own_words = failure_of(reader.engine, number, text) is not None
    if failure is not None and not has_own_words:
        reader.fail(failure, text)


_GZIP, _OTHERS = b"\x1f\x8b", {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}


@contextmanager
def opened(source: str) -> Iterator[BinaryIO]:
    """Open a log, compressed with gzip or not; "-" is standard input.

    Raises
    ------
    InvalidProblem : it cannot be read, is cut short, or is compressed in another way.
    """
    try:
        if source == "-":
            yield _plain(source, sys.stdin.buffer)
        else:
            with Path(source).open("rb", buffering=2**17) as file:
                yield _plain(source, file)
    except OSError as error:
        raise InvalidProblem.at(_name(source), "a readable file", _reason(source, error)) from None
    except (EOFError, zlib.error):
        expected = "a whole gzip file"
        raise InvalidProblem.at(_name(source), expected, "one that is cut short") from None
    except ValueError as error:  # a path with a NUL byte
        raise InvalidProblem.at(shown(source), "the path of a file", str(error)) from None


def _reason(source: str, error: OSError) -> str:
    return str(error) if isinstance(error, gzip.BadGzipFile) else unreadable(source, error)


def _plain(source: str, file: BinaryIO) -> BinaryIO:
    """The text of a file: what its first bytes say, not its name, decides."""
    if not hasattr(file, "peek"):
        return file
    start = file.peek(8)[:8]
    if start.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    for magic, kind in _OTHERS.items():
        if start.startswith(magic):
            raise InvalidProblem.at(_name(source), "text or gzip", f"{kind}, unpack it first")
    return file
