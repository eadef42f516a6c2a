"""The report of kvplan check-log: a table for each start, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvplan.models.messages import one_line
from kvplan.solver.logs.compare import RATIOS
from kvplan.solver.logs.reading.interval import GIB, Interval
from kvplan.solver.logs.reading.record import Failure, RankLog
from kvplan.solver.logs.verdict import APART, Share, Start
from kvplan.solver.report.document import Column, Document, Lines, Row, Table

_FIGURES = {
    "total": ("total", "device total"),
    "free": ("free", "device free"),
    "budget": ("budget",),
    "weights": ("weights", "loaded", "device model", "weights.total"),
    "peak": ("peak",),
    "non_torch": ("non_torch",),
    "graphs": ("graphs",),
    "available": ("available",),
    "cache": ("size", "device context", "required.kv"),
    "compute": ("device compute", "graph.full"),
}
"""Columns of bytes, and the figures that may stand there."""
_COLUMNS = (
    Column("rank"),
    Column("line", "number", level=3),
    *(Column(name, "number", level=2 if name in ("peak", "graphs") else 1) for name in _FIGURES),
    Column("count", "number"),
    Column("more", "number"),
    Column("unused", "number"),
)


def log_document(starts: Sequence[Start]) -> Document:
    """What is said of all starts, in reading order."""
    blocks: list[Lines | Table] = []
    for start in starts:
        verdict = Lines(tuple(_verdict(start)), "good" if start.is_fine else "bad")
        blocks += [_table(start), verdict]
        if start.failures:
            blocks.append(Lines(tuple(_failures(start)), "bad"))
        if start.remarks:
            blocks.append(Lines(tuple(f"note: {remark}" for remark in start.remarks), "warning"))
    return tuple(blocks)


def _title(start: Start) -> str:
    parts = (start.engine, start.replica, f"({one_line(start.source)})")
    return " ".join(part for part in parts if part) + ": bytes in GiB"


def _table(start: Start) -> Table:
    wrong = {(wrong.rank, wrong.line) for wrong in start.wrong}
    rows = tuple(
        _row(share.rank, share, (share.rank.label, share.rank.line) in wrong)
        for share in start.shares
    )
    cores = tuple(_row(core, None, False) for core in start.cores)
    return Table(_title(start), _COLUMNS, (rows, cores))


def _row(rank: RankLog, share: Share | None, is_wrong: bool) -> Row:
    figures = [_first(rank, names) for names in _FIGURES.values()]
    count = None if rank.count is None else " + ".join(f"{part:_}" for part in rank.count)
    return Row(
        (
            rank.label,
            str(rank.line),
            *(None if figure is None else _gib(figure.middle) for figure in figures),
            count,
            f"{share.more:_}" if share is not None and share.more else None,
            _gib(share.unused_bytes) if share is not None and share.unused_bytes else None,
        ),
        state="bad" if is_wrong else "plain",
    )


def _verdict(start: Start) -> Iterator[str]:
    """Whether the ranks agree, what one plan gives and costs, and every wrong figure."""
    ranks = _ranks(start)
    unused = sum(share.unused_bytes or 0 for share in start.shares)
    if not start.ranks_agree:
        lows, highs = min(start.counts), max(start.counts)
        percent = _percent(highs[0] - lows[0], lows[0])
        yield f"{ranks} disagree: {lows[0]:_} to {highs[0]:_} ({percent} apart)"
        if start.over_asked:
            yield (
                f"built at the first rank's count, the smallest rank is asked for "
                f"{_bytes(start.over_asked)} too much"
            )
        given = f"one agreed plan: {start.agreed:_} on every rank"
        yield f"{given}; it leaves {_bytes(unused)} unused" if unused else given
    elif start.counts:
        said = "agree on" if len(start.counts) > 1 else "with a count of"
        yield f"{ranks} {said} {start.agreed:_}"
        if unused:
            yield f"the smallest rank decides; {_bytes(unused)} stay unused on the others"
    elif start.shares:
        yield f"{ranks}, none printed a count"
    for wrong in start.wrong:
        yield f"wrong: rank {wrong.rank}, line {wrong.line}: {wrong.figure} {wrong.text}"


def _ranks(start: Start) -> str:
    """How many ranks there are; caches and devices of one process are none."""
    if start.engine in APART:
        return "one process"
    return f"{len(start.shares)} rank{'s' if len(start.shares) != 1 else ''}"


def _failures(start: Start) -> Iterator[str]:
    """What the engine says of its end, why, and what to change."""
    for failure in start.failures:
        yield f"failed: line {failure.line}: {one_line(failure.said)}"
        yield f"  why: {failure.why}"
        if failure.remedies:
            yield f"  try: {'; '.join(failure.remedies)}"


def _first(rank: RankLog, names: Sequence[str]) -> Interval | None:
    """The first of several figures that a rank printed."""
    return next((rank.figures[name] for name in names if name in rank.figures), None)


def _gib(count: int) -> str:
    """Engines print two decimals of a GiB, whatever the size."""
    hundredths = (2 * 100 * abs(count) + GIB) // (2 * GIB)
    return f"{'-' if count < 0 else ''}{hundredths // 100}.{hundredths % 100:02d}"


def _bytes(count: int) -> str:
    return f"{count:_} B ({_gib(count)} GiB)"


def _percent(part: int, whole: int) -> str:
    if not whole:
        return "all"
    hundredths = round(10_000 * part / whole)
    return f"{hundredths // 100}.{hundredths % 100:02d} %"


def log_data(starts: Sequence[Start]) -> list[dict[str, Any]]:
    """The same for machines: bytes as whole numbers, the middle of what a figure can stand for."""
    return [
        {
            "engine": start.engine,
            "source": start.source,
            "replica": start.replica,
            "ranks": [_rank_data(share) for share in start.shares],
            "ranks_agree": start.ranks_agree,
            "agreed": start.agreed,
            "over_asked_bytes": start.over_asked,
            "wrong": [wrong._asdict() for wrong in start.wrong],
            "failed": [_failure_data(failure) for failure in start.failures],
            "notes": list(start.remarks),
        }
        for start in starts
    ]


def _failure_data(failure: Failure) -> dict[str, Any]:
    told = {"line": failure.line, "kind": failure.kind, "said": failure.said}
    return {**told, "why": failure.why, "remedies": list(failure.remedies)}


def _rank_data(share: Share) -> dict[str, Any]:
    rank = share.rank
    figures: dict[str, int | float] = {
        name: float(figure.centre) if name in RATIOS else figure.middle
        for name, figure in rank.figures.items()
    }
    count = None if rank.count is None else list(rank.count)
    own = {"name": rank.label, "line": rank.line, "count": count, "figures": figures}
    return {**own, "more": share.more, "unused_bytes": share.unused_bytes}
