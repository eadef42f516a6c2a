"""Charts to a file: a picture, or a page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvplan.solver.explore.files import write_atomically
from kvplan.solver.pictures.chart import Chart


def write_charts(charts: Sequence[Chart], path: Path) -> None:
    """Write charts as the ending of a file says."""
    suffix = path.suffix.lower()
    if suffix == ".html":
        from kvplan.solver.pictures.page import page

        text = page("kvplan", (), charts)
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
        return
    from kvplan.solver.pictures.figure import picture

    drawn = picture(charts, "svg" if suffix == ".svg" else "png")
    write_atomically(path, lambda part: part.write_bytes(drawn))
