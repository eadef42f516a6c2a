"""TensorRT-LLM: pools by window, once for the profiling run and once for good; the last counts.

[RANK 1] or a launcher's tag names the rank where it is printed. Older versions print no rank: with
an MPI world of more than one, each allocation there is another rank's.
"""

from __future__ import annotations

import re

from kvplan.solver.logs.failures import NEEDLES as FAILURES
from kvplan.solver.logs.failures import failure_of
from kvplan.solver.logs.reading.interval import FIGURE as _N
from kvplan.solver.logs.reading.interval import Interval, printed
from kvplan.solver.logs.reading.prefix import rank_of, source_of, unescaped
from kvplan.solver.logs.reading.record import CORE, MOST_RANKS, Failure, RankLog

_WORLD = re.compile(r"MPI size: (\d{1,9})")
_BLOCKS = re.compile(r"tokens per block=(\d{1,9}), primary blocks=(\d{1,18})")
_SEQUENCE = re.compile(r"blocks per sequence: (\d{1,18}) \[window size=(\d{1,18})\]")
_POOL = re.compile(r"Number of blocks in KV cache primary pool: (\d{1,18})")
_PER_BLOCK = re.compile(r"Number of tokens per block: (\d{1,9})")
_ALLOCATED = re.compile(rf"Allocated {_N} GiB for max tokens in paged KV cache \((\d{{1,18}})\)")
_BYTES = re.compile(r"Allocate (-?\d{1,20}) bytes for k/v cache")
_TOKENS = re.compile(r"Using (\d{1,18}) tokens in paged KV cache")
_MEMORY = re.compile(
    rf"calculating max tokens in paged kv cache: total: {_N} GiB, available: {_N} GiB"
)


class TrtllmReader:
    """Reads pools and allocations."""

    engine = "TensorRT-LLM"
    needles = (
        b"primary blocks=",
        b"KV cache primary pool",
        b"tokens per block",
        b"paged KV cache",
        b"paged kv cache",
        b"k/v cache",
        b"MPI size: ",
        *FAILURES[engine],
    )

    def __init__(self) -> None:
        self._ranks: dict[str, list[RankLog]] = {}
        self._windows: dict[str, list[tuple[int, int]]] = {}
        self._world, self._count = 1, 0

    def read(self, number: int, text: str) -> None:
        """Take in the figures of a line."""
        text = unescaped(text)
        world = _WORLD.search(text)
        if world is not None:
            self._world = max(self._world, int(world[1]))
            return
        failure = failure_of(self.engine, number, text)
        if failure is not None:
            self.fail(failure, text)
            return
        label = rank_of(text) or source_of(text)
        found = self._figures(label, text)
        if found:
            _put(self._record(label, number, found), found)

    @property
    def phase(self) -> str | None:
        """Whether the engine has spoken, and built its cache."""
        if not self._ranks:
            return "load" if self._world > 1 else None
        every = (record.figures for records in self._ranks.values() for record in records)
        return "built" if any("pool" in figures for figures in every) else "profile"

    def fail(self, failure: Failure, text: str) -> None:
        """Take in a failure."""
        records = self._ranks.setdefault(CORE, [])
        if not records:
            records.append(RankLog(CORE, failure.line))
        records[0].failures.append(failure)

    def _figures(self, label: str, text: str) -> dict[str, Interval]:
        found: dict[str, Interval] = {}
        blocks, allocated = _BLOCKS.search(text), _ALLOCATED.search(text)
        if blocks is not None:
            windows = self._windows.setdefault(label, [])
            if len(windows) < MOST_RANKS:
                windows.append((int(blocks[2]), int(blocks[1])))
            found["blocks"] = Interval.exactly(sum(count for count, _ in windows))
            found["block_tokens"] = Interval.exactly(int(blocks[1]))
        sequence = _SEQUENCE.search(text)
        if sequence is not None:
            found["sequence blocks"], found["window"] = map(printed, sequence.groups())
        if allocated is not None:
            found["pool"], found["tokens"] = printed(allocated[1], "GiB"), printed(allocated[2])
            found["windows"] = Interval.exactly(len(self._windows.pop(label, [])))
        for pattern, names in (
            (_POOL, ("blocks",)),
            (_PER_BLOCK, ("block_tokens",)),
            (_BYTES, ("pool",)),
            (_TOKENS, ("tokens",)),
        ):
            match = pattern.search(text)
            if match is not None:
                found.update(zip(names, map(printed, match.groups()), strict=True))
        return found | memory_of(text)

    def _record(self, label: str, number: int, found: dict[str, Interval]) -> RankLog:
        """The record of a rank; a nameless one ends with its tokens where there are several."""
        records = self._ranks.setdefault(label, [])
        closed = bool(records) and not label and self._world > 1 and "tokens" in records[-1].figures
        if (not records or closed) and self._count < MOST_RANKS:
            self._count += 1
            records.append(RankLog(label or str(len(records)), number))
        return records[-1] if records else RankLog(label, number)

    def ranks(self) -> list[RankLog]:
        """Every rank, with the figures that it printed last."""
        return [record for records in self._ranks.values() for record in records]


def memory_of(text: str) -> dict[str, Interval]:
    """Bytes of the card, and those that are free when the pools are sized."""
    memory = _MEMORY.search(text)
    if memory is None:
        return {}
    return dict(zip(("total", "free"), (printed(n, "GiB") for n in memory.groups()), strict=True))


def _put(record: RankLog, found: dict[str, Interval]) -> None:
    """Keep the latest figures; the tokens of a block are the same in every run of a start."""
    size = found.pop("block_tokens", None)
    if size is not None:
        record.put("block_tokens", size)
    record.figures.update(found)
