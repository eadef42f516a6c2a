"""vLLM and its forks: lines of workers, and lines of the engine core that hold for all.

Workers are told apart by the prefix of their lines: (Worker_DP0_TP1 pid=..), (VllmWorker rank=1
pid=..), (VllmWorkerProcess pid=..). GiB are rounded to two decimals, zeros at the end dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from kvplan.solver.logs.interval import Interval, printed
from kvplan.solver.logs.record import MOST_RANKS, RankLog

CORE = "engine"
"""Label of figures that the engine core prints for all its workers."""

_N = r"(-?\d{1,20}(?:\.\d{1,20})?)"
_COUNT = r"(\d[\d,]{0,30})"
_WORKER = re.compile(
    r"\(\w{0,30}?Worker(?:Process)?((?:_[A-Z]+\d+)*)(?: rank=(\d+))?(?: pid=(\d+))?\)"
)
_CORE = re.compile(r"\(EngineCore(?:_DP(\d+))?")
_REPLICA = re.compile(r"_DP(\d+)")

_PATTERNS = {
    re.compile(rf"total_gpu_memory \({_N}GiB\) x gpu_memory_utilization \({_N}\) = {_N}GiB"): (
        ("total", "GiB"),
        ("utilization", ""),
        ("budget", "GiB"),
    ),
    re.compile(
        rf"model weights take {_N}GiB; non_torch_memory takes {_N}GiB; PyTorch activation peak "
        rf"memory takes {_N}GiB; the rest of the memory reserved for KV Cache is {_N}GiB"
    ): (("weights", "GiB"), ("non_torch", "GiB"), ("activation", "GiB"), ("available", "GiB")),
    re.compile(rf"Available KV cache memory: {_N} GiB"): (("available", "GiB"),),
    re.compile(rf"Available memory: {_N}, total memory: {_N}"): (("available", ""), ("total", "")),
    re.compile(rf"(?:# (?:GPU|cuda|CUDA) blocks: |Overriding num_gpu_blocks=){_COUNT}"): (
        ("blocks", ""),
    ),
    re.compile(rf"GPU KV cache size: {_COUNT} tokens"): (("tokens", ""),),
    re.compile(rf"Maximum concurrency for {_COUNT} tokens per request: {_N}x"): (
        ("longest", ""),
        ("concurrency", ""),
    ),
}
_STARTUP = re.compile(
    rf"Free memory on device.{{0,30}}?\({_N}/{_N} GiB\) on startup\. Desired GPU memory "
    rf"utilization is \({_N}, {_N} GiB\)\. Actual usage(.{{0,400}}?)Replace "
    r".{0,80}?--kv-cache-memory=(\d{1,20})"
)
_USE = re.compile(rf"{_N} GiB for ")


class VllmReader:
    """Reads what workers and engine cores say of their memory."""

    engine = "vLLM"
    needles = (
        b"KV cache memory",
        b"GPU KV cache size",
        b"Maximum concurrency for",
        b" blocks: ",
        b"num_gpu_blocks",
        b"gpu_memory_utilization (",
        b"reserved for KV Cache is",
        b"Free memory on device",
        b"total memory: ",
    )

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, str], list[RankLog]] = {}
        self._count = 0

    def read(self, number: int, text: str) -> None:
        """Take in the figures of a line, under the rank that its prefix names."""
        found = dict(_figures(text))
        if not found:
            return
        label, replica = _speaker(text)
        if label == CORE and found.keys() & {"available", "budget", "used"}:
            label = "0"  # with a single rank the core is the worker, too
        record = self._record(label, replica, found, number)
        if record is None:
            return
        if label == CORE and "tokens" in record.figures and "tokens" in found:
            # Some versions print the count of every worker, and build the smallest.
            found["tokens"] = min(found["tokens"], record.figures["tokens"])
        record.figures.update(found)

    def _record(
        self, label: str, replica: str, found: dict[str, Interval], number: int
    ) -> RankLog | None:
        """The record that a line belongs to: a worker that measures again has started again."""
        starts = self._ranks.setdefault((replica, label), [])
        if label == CORE:
            # A core speaks after its workers.
            workers = (
                len(of) for (name, who), of in self._ranks.items() if name == replica and who
            )
            again = len(starts) < max(1, *workers)
        else:
            again = not starts or any(
                name in found and starts[-1].figures.get(name, found[name]) != found[name]
                for name in ("available", "blocks", "budget")
            )
        if again:
            if self._count >= MOST_RANKS:
                return None
            self._count += 1
            starts.append(RankLog(label, number, replica))
        return starts[-1]

    def ranks(self) -> list[RankLog]:
        """Every start of every worker and core, in the order in which they first spoke."""
        return [record for starts in self._ranks.values() for record in starts]


def _figures(text: str) -> Iterator[tuple[str, Interval]]:
    for pattern, names in _PATTERNS.items():
        match = pattern.search(text)
        if match is not None:
            for (name, unit), value in zip(names, match.groups(), strict=True):
                decimals = 2 if unit or name == "concurrency" else 0
                yield name, printed(value, unit, decimals)
    match = _STARTUP.search(text)
    if match is not None:
        free, total, utilization, budget, uses, suggested = match.groups()
        for name, value in (("free", free), ("total", total), ("budget", budget)):
            yield name, printed(value, "GiB", 2)
        yield "utilization", Interval.exactly(Fraction(utilization))
        parts = [printed(use, "GiB", 2) for use in _USE.findall(uses)]
        yield "used", sum(parts, Interval.exactly(0))
        yield "suggested", printed(suggested)


def _speaker(text: str) -> tuple[str, str]:
    """Rank and replica that a line is of."""
    worker = _WORKER.search(text)
    if worker is not None:
        names, rank, pid = worker.groups()
        replica = _REPLICA.search(names)
        place = _REPLICA.sub("", names).lstrip("_")
        label = place or (f"rank {rank}" if rank else f"pid {pid}" if pid else "0")
        return label, f"DP{replica[1]}" if replica else ""
    core = _CORE.search(text)
    if core is None:
        return "0", ""
    return CORE, f"DP{core[1]}" if core[1] else ""
