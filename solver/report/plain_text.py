"""Plain text for files, pipes and tests: never wrapped or cut, no colour, the same anywhere."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from kvplan.models.units import human_bytes
from kvplan.solver.report.document import Column, Document, Lines, Row, Table

_GAP = "  "


def plain_text(document: Document) -> str:
    """Render a document; blocks are parted by an empty line."""
    blocks = []
    for block in document:
        lines = list(block.texts) if isinstance(block, Lines) else list(_table(block))
        if lines:
            blocks.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(blocks) + "\n"


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    table = table.without_empty_columns()
    yield table.title
    cells = [[_texts(table.columns, row) for row in section] for section in table.sections]
    heads = [_head(column) for column in table.columns]
    grid = [heads, *(row for section in cells for row in section)]
    widths = [_widths([row[index] for row in grid]) for index in range(len(table.columns))]
    yield _line(table.columns, heads, widths)
    rule = "-" * max(cell_len(_line(table.columns, row, widths).rstrip()) for row in grid)
    for section in cells:
        yield rule
        for row in section:
            yield _line(table.columns, row, widths)


def _head(column: Column) -> tuple[str, str]:
    return (column.title, "")


def _texts(columns: tuple[Column, ...], row: Row) -> list[tuple[str, str]]:
    return [_cell(cell) for _, cell in zip(columns, row.cells, strict=True)]


def _cell(cell: str | int | None) -> tuple[str, str]:
    """Text of a cell; bytes have two parts, each aligned by itself: integer, (human form)."""
    if isinstance(cell, int):
        return f"{cell:_} B", f"({human_bytes(cell)})" if abs(cell) >= 1024 else ""
    return cell or "", ""


def _widths(parts: list[tuple[str, str]]) -> tuple[int, int]:
    return max(cell_len(left) for left, _ in parts), max(cell_len(right) for _, right in parts)


def _line(
    columns: tuple[Column, ...], row: list[tuple[str, str]], widths: list[tuple[int, int]]
) -> str:
    texts = []
    for column, (left, right), (left_width, right_width) in zip(columns, row, widths, strict=True):
        text = _padded(left, left_width, column.kind in ("number", "bytes"))
        if right_width:
            text += " " + _padded(right, right_width, right_aligned=True)
        texts.append(text)
    return _GAP.join(texts)


def _padded(text: str, width: int, right_aligned: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right_aligned else text + space
