"""For a terminal: the same tables in colour, with a bar drawn against the quota."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from kvplan.models.units import exact_bytes, human_bytes
from kvplan.solver.report.document import Column, Document, Lines, Row, State, Table
from kvplan.solver.report.plain_text import plain_text

_STYLES: dict[State, str] = {
    "plain": "",
    "good": "bold green",
    "warning": "yellow",
    "bad": "bold red",
    "total": "bold",
}
_BARS: dict[State, str] = {**_STYLES, "plain": "cyan", "total": "blue"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEAST_BAR, _MOST_BAR = 10, 40
_COLUMN_GAP = 2
_LEAST_WIDTH = 40
_MANY_COLUMNS = 7  # of which none would keep room for its values
_UNBOUNDED = 100_000


class Form(NamedTuple):
    """How much of a table is shown, and how wide its bars are (0: none)."""

    level: int  # columns above it are left out
    exact: bool  # bytes as integers too
    bar: int = 0


_FORMS = (Form(3, True), Form(2, True), Form(1, True), Form(0, True), Form(0, False))
"""The first with bars, where there is room for them: a narrow screen drops the bars before
percentages, then other figures. Names, phases and notes stay."""


def print_document(document: Document, console: Console) -> None:
    """Print a document to a terminal.

    Tables with bars share one form; others have their own. A value to paste that does not fit
    beside the others has a line of its own, which the terminal wraps without breaking it. Where
    not even the smallest form could be read, the plain text is left to the terminal to wrap.
    """
    if console.width < _LEAST_WIDTH:
        console.file.write(plain_text(document))
        return
    tables = [block.without_empty_columns() for block in document if isinstance(block, Table)]
    barred = _form([table for table in tables if _has_bars(table)], console, bars=True)
    for block in document:
        if isinstance(block, Lines):
            _print_lines(block, console)
        elif block.rows:
            table = block.without_empty_columns()
            form = barred if _has_bars(table) else _form([table], console, bars=False)
            console.print(Text(table.title, style="bold"))
            wide = _natural_width(table, form, console) > console.width
            if wide and any(column.kind == "paste" for column in table.columns):
                _print_stacked(table, console)
            elif wide and len(table.columns) >= _MANY_COLUMNS and not _has_bars(table):
                _print_records(table, console)
            else:
                console.print(_grid(table, form, ascii_only=console.options.ascii_only))
            console.print()


def _print_lines(lines: Lines, console: Console) -> None:
    for text in lines.texts:
        console.print(Text(text, style=_STYLES[lines.state]))
    if lines.texts:
        console.print()


def _print_stacked(table: Table, console: Console) -> None:
    """One line a cell; those to paste are indented, with their flag, for the terminal to wrap."""
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            text = _cell(cell, exact=True)
            text.stylize(_STYLES[row.state])
            if column.kind == "paste" and text:
                flag = f"{column.title} " if column.title.startswith("--") else ""
                console.print(Text(f"  {flag}") + text, soft_wrap=True)
            elif text:
                console.print(text)


def _print_records(table: Table, console: Console) -> None:
    """One record a row: names beside their values."""
    for row in table.rows:
        named = [
            f"{column.title.partition(chr(10))[0]} {_cell(cell, exact=False).plain}"
            for column, cell in zip(table.columns, row.cells, strict=True)
            if cell not in (None, "")
        ]
        console.print(Text(", ".join(named), style=_STYLES[row.state]))


def _has_bars(table: Table) -> bool:
    return any(row.filled is not None for row in table.rows)


def _form(tables: Sequence[Table], console: Console, *, bars: bool) -> Form:
    """The fullest form in which the widest of the tables fits; else the smallest."""
    for form in _FORMS:
        widest = max((_natural_width(table, form, console) for table in tables), default=0)
        room = console.width - widest
        if bars and form is _FORMS[0] and room >= _LEAST_BAR + _COLUMN_GAP:
            return form._replace(bar=min(room - _COLUMN_GAP, _MOST_BAR))
        if room >= 0:
            return form
    return _FORMS[-1]


def _natural_width(table: Table, form: Form, console: Console) -> int:
    """Columns that a table takes when nothing is folded, whatever the screen has."""
    unbounded = console.options.update(max_width=_UNBOUNDED)
    return Measurement.get(console, unbounded, _grid(table, form, ascii_only=True)).maximum


def _grid(table: Table, form: Form, *, ascii_only: bool) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    kept = [i for i, column in enumerate(table.columns) if column.level <= form.level]
    for index in kept:
        _add_column(grid, table.columns[index])
    if form.bar:
        grid.add_column("", no_wrap=True)
    for section in table.sections:
        for row in section:
            cells = [_cell(row.cells[index], exact=form.exact) for index in kept]
            bars = [_bar(row, form.bar, ascii_only=ascii_only)] if form.bar else []
            grid.add_row(*cells, *bars, style=_STYLES[row.state])
        grid.add_section()
    return grid


def _add_column(grid: Grid, column: Column) -> None:
    if column.kind == "paste":
        grid.add_column(Text(column.title), overflow="ignore", no_wrap=True)
    elif column.kind == "text":
        grid.add_column(Text(column.title), overflow="fold")
    else:
        grid.add_column(Text(column.title), justify="right", overflow="fold", no_wrap=True)


def _cell(cell: str | int | None, *, exact: bool) -> Text:
    if isinstance(cell, int):
        return Text(exact_bytes(cell) if exact else human_bytes(cell))
    return Text(cell or "")


def _bar(row: Row, width: int, *, ascii_only: bool) -> Text:
    """Draw a share of the quota, to an eighth of a character, rounded down but never to nothing."""
    if row.filled is None:
        return Text("")
    eighths = int(row.filled * width * 8)
    if row.filled > Fraction(0):
        eighths = max(eighths, 1)
    full, part = divmod(eighths, 8)
    if ascii_only:
        return Text(("#" * full).ljust(width, "."), style=_BARS[row.state])
    text = _EIGHTHS[8] * full + (_EIGHTHS[part] if part else "")
    return Text(text.ljust(width, "·"), style=_BARS[row.state])
