"""Tables of `explore` and `frontier` as staircases, heat maps and fronts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from kvplan.models import InvalidProblem
from kvplan.solver.explore.axes import Values, parse_axis
from kvplan.solver.pictures.chart import Chart, Heat, Panel, Points, Scale, Steps, scale_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIELDS = {
    "quota": "bytes",
    "total": "bytes",
    "free": "bytes",
    "bytes": "bytes",
    "capacity": "tokens",
    "history": "tokens",
    "requested": "tokens a chunk",
    "count": "requests",
}
_FIRST = ("capacity:", "count:", "choice:", "prefill", "experts", "copies:", "blocks:")


def sweep_charts(table: pd.DataFrame, vary: Mapping[str, Values]) -> tuple[Chart, ...]:
    """A table of `explore`: a staircase of each decision, or a heat map of each over two fields.

    Raises
    ------
    InvalidProblem : more than two fields vary, or nothing fits anywhere.
    """
    axes = [_field_scale(path, values) for path, values in vary.items()]
    if len(axes) > 2:
        raise InvalidProblem.at(
            "--out", "a picture of one or two varied fields (.csv takes more)", str(len(axes))
        )
    return charts_over(table, axes)


def charts_over(table: pd.DataFrame, axes: Sequence[Scale]) -> tuple[Chart, ...]:
    """The same over one or two columns that come first in a table."""
    panels = [panel_of(table, name) for name in decisions_in(table)]
    if not panels:
        raise InvalidProblem.at("--out", "a row that has a plan", "none to draw")
    if len(axes) == 1:
        at = tuple(int(value) for value in table[axes[0].label])
        title = f"What is decided over {axes[0].label}{_gaps(panels)}"
        return (Steps(title, axes[0], at, tuple(panels)),)
    varying = [panel for panel in panels if len(set(panel.values)) > 1] or panels[:1]
    return tuple(_heat(table, axes[0], axes[1], panel) for panel in varying)


def decisions_in(table: pd.DataFrame) -> list[str]:
    """Columns that hold decisions, requests first; those without a value are left out."""
    names = [name for prefix in _FIRST for name in table.columns if str(name).startswith(prefix)]
    return [name for name in dict.fromkeys(names) if table[name].notna().any()]


def panel_of(table: pd.DataFrame, name: str) -> Panel:
    """A column; words as numbers in the order of their category."""
    column = table[name]
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = tuple(None if code < 0 else int(code) for code in column.cat.codes)
        return Panel(scale_of(name, [str(each) for each in column.cat.categories]), codes)
    values = tuple(None if pd.isna(value) else int(value) for value in column)
    return Panel(scale_of(name), values)


def _gaps(panels: Sequence[Panel]) -> str:
    """Say what a gap means, where there is one."""
    return " (blank: nothing fits)" if any(None in panel.values for panel in panels) else ""


def _heat(table: pd.DataFrame, y: Scale, x: Scale, panel: Panel) -> Heat:
    """The first axis upwards, the second to the right; rows of the table are in that order."""
    at_y = tuple(dict.fromkeys(int(value) for value in table[y.label]))
    at_x = tuple(dict.fromkeys(int(value) for value in table[x.label]))
    width = len(at_x)
    rows = tuple(panel.values[start : start + width] for start in range(0, len(table), width))
    title = f"{panel.scale.label} over {x.label} and {y.label}{_gaps([panel])}"
    return Heat(title, x, y, panel.scale, at_x, at_y, rows)


def _field_scale(path: str, values: Values) -> Scale:
    """Bytes where the values have a unit; else what the field counts."""
    figures = parse_axis(path, values).figures
    last = path.rpartition(".")[2]
    is_bytes = figures[len(figures) - 1].has_unit
    return Scale(path, "bytes" if is_bytes else _FIELDS.get(last, last))


def front_charts(table: pd.DataFrame) -> tuple[Chart, ...]:
    """A table of `frontier` over its goals: the columns before the status."""
    names = [str(name) for name in table.columns]
    goals = names[: names.index("status")]
    if not 2 <= len(goals) <= 3:
        raise InvalidProblem.at(
            "--out", "two or three goals with a column of their own", str(goals)
        )
    panels = [panel_of(table, goal) for goal in goals]
    points: list[Any] = list(zip(*(panel.values for panel in panels), strict=True))
    scales = tuple(panel.scale for panel in panels)
    return (Points("Best trade-offs", scales, tuple(points)),)
