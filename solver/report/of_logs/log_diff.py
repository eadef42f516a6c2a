"""The report of kvplan check-log --diff: what changed, and what explains the counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.models.messages import one_line
from kvplan.solver.logs.compare import COUNTS, RATIOS
from kvplan.solver.logs.diff import Change, Difference, shown_value
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.report.document import Column, Document, Lines, Row, Table

_COLUMNS = (
    Column("rank"),
    Column("figure"),
    Column("before", "number"),
    Column("after", "number"),
)


def diff_document(difference: Difference) -> Document:
    """A table of all that differs, then the counts and their causes."""
    before, after = difference.before, difference.after
    title = f"{before.engine}: {one_line(before.source)} -> {one_line(after.source)}"
    rows = tuple(
        Row(
            (
                one_line(change.rank),
                change.name,
                one_line(shown_value(change, "before")),
                one_line(shown_value(change, "after")),
            )
        )
        for change in difference.changes
    )
    table = (Table(title, _COLUMNS, (rows,)),) if rows else (Lines((title, "nothing differs")),)
    return (*table, Lines(tuple(_counts(difference))))


def _counts(difference: Difference) -> Iterator[str]:
    before, after = ("no count" if n is None else f"{n:_}" for n in difference.counts)
    yield f"count: {before} -> {after}" if before != after else f"count: {before} in both"
    for cause in difference.causes:
        change = "" if cause.moved is None else f"{cause.moved:+_}: "
        yield f"  {change}{one_line(cause.text)}"
    for name, start in (("before", difference.before), ("after", difference.after)):
        for failure in start.failures:
            yield f"{name}: failed: {failure.why}"


def diff_data(difference: Difference) -> dict[str, Any]:
    """The same for machines."""
    return {
        "engine": difference.before.engine,
        "sources": [difference.before.source, difference.after.source],
        "changes": [_change(change) for change in difference.changes],
        "counts": {"before": difference.counts[0], "after": difference.counts[1]},
        "causes": [cause._asdict() for cause in difference.causes],
    }


def _change(change: Change) -> dict[str, Any]:
    sides = {"before": change.before, "after": change.after}
    return {
        "rank": change.rank,
        "figure": change.name,
        **{side: _plain(change.name, value) for side, value in sides.items()},
    }


def _plain(name: str, value: Interval | str | None) -> int | float | str | None:
    if not isinstance(value, Interval):
        return value
    exact = name not in RATIOS and (name in COUNTS or value.low == value.high)
    return value.middle if exact or name not in RATIOS else float(value.centre)
