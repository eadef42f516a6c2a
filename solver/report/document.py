"""The contents of a report, whatever draws them: lines and tables, in reading order."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

State = Literal["plain", "good", "warning", "bad", "total"]
"""How a row or line is meant; a terminal colours it, plain text says it in words already."""


class Row(NamedTuple):
    """Cells of one row: text, bytes (an int), or nothing."""

    cells: tuple[str | int | None, ...]
    filled: Fraction | None = None  # share of the quota, for the bar of a terminal
    state: State = "plain"


@dataclass(frozen=True)
class Column:
    """Heading and alignment; bytes are shown as integer and in human form.

    A `paste` is copied from the screen: it is never folded, whatever the width.
    """

    title: str
    kind: Literal["text", "number", "bytes", "paste"] = "text"
    level: int = 0  # the higher, the earlier a narrow screen drops it


@dataclass(frozen=True)
class Table:
    """Rows in sections; a rule is drawn between two sections."""

    title: str
    columns: tuple[Column, ...]
    sections: tuple[tuple[Row, ...], ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all sections."""
        return tuple(row for section in self.sections for row in section)

    def without_empty_columns(self) -> Table:
        """Drop every column that no row has a cell in."""
        used = [
            index
            for index in range(len(self.columns))
            if any(row.cells[index] not in (None, "") for row in self.rows)
        ]
        sections = tuple(
            tuple(row._replace(cells=tuple(row.cells[i] for i in used)) for row in section)
            for section in self.sections
            if section
        )
        return Table(self.title, tuple(self.columns[i] for i in used), sections)


@dataclass(frozen=True)
class Lines:
    """Free lines, such as the headline or the notes."""

    texts: tuple[str, ...]
    state: State = "plain"


Document = tuple[Lines | Table, ...]
