"""The report of an engine with separate pools: its split by ratio, the best, flags to paste."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.models.layouts.pool_split import PoolSplit, Split
from kvplan.models.units import human_bytes
from kvplan.solver.managers.texts import decimal, gain
from kvplan.solver.report.document import Column, Document, Lines, Row, Table

LABELS = {"full": "tokens", "window": "window tokens", "state": "state slots"}


def split_document(answer: PoolSplit) -> Document:
    """The contents of a report, in reading order."""
    return (Lines(tuple(_headline(answer)), "good"), _table(answer), Lines(tuple(_notes(answer))))


def _headline(answer: PoolSplit) -> Iterator[str]:
    yield answer.name
    if answer.engine is None:
        yield "its own split refuses to start"
    elif answer.pasted is None:
        yield "its own split already holds the most of the workload"
    if answer.pasted is not None:
        before = answer.engine.requests if answer.engine is not None else 0 * answer.best.requests
        yield f"set: {answer.paste}"
        yield f"holds {gain(before, answer.pasted.requests)} of the workload at once"


def _table(answer: PoolSplit) -> Table:
    splits = [each for each in (answer.engine, answer.best, answer.pasted) if each is not None]
    pools = list(dict.fromkeys(pool for each in splits for pool in each.tokens))
    columns = (
        Column("split"),
        Column("flags"),
        *(Column(LABELS.get(pool, f"{pool} slots"), "number") for pool in pools),
        *(Column(f"{pool} bytes", "number", level=1) for pool in pools),
        Column("requests at once", "number"),
    )
    rows = tuple(Row((each.name, *_cells(each, pools))) for each in splits)
    return Table("splits of the same bytes", columns, (rows,))


def _cells(split: Split, pools: list[str]) -> Iterator[str]:
    yield " ".join(f"{flag} {value}" for flag, value in split.flags.items())
    for pool in pools:
        yield f"{split.tokens.get(pool, 0):,}"
    for pool in pools:
        yield human_bytes(split.bytes.get(pool, 0))
    yield decimal(split.requests)


def _notes(answer: PoolSplit) -> Iterator[str]:
    parts = [
        f"{entry.capacity:,} tokens"
        if entry.share == 1
        else f"{entry.capacity:,} tokens ({decimal(entry.share * 100)} %)"
        for entry in answer.workload
    ]
    yield f"workload: {', '.join(parts)}"
    yield f"no split of these bytes holds more than {decimal(answer.best.requests)} requests"
    for text in answer.left_out:
        yield f"not counted: {text}"
