"""Charts by matplotlib, as PNG or SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.figure import Figure

from kvplan.solver.pictures.chart import (
    COLOURS,
    GIB,
    PATTERNS,
    Bars,
    Chart,
    Heat,
    Points,
    Scale,
    Steps,
)

_PANEL_INCHES, _WIDTH_INCHES, _DPI = 1.9, 9.0, 120


def picture(charts: Sequence[Chart], kind: Literal["png", "svg"]) -> bytes:
    """All charts below one another; the same charts give the same bytes."""
    heights = [_inches(chart) for chart in charts]
    with mpl.rc_context({"svg.hashsalt": "kvplan", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(_WIDTH_INCHES, sum(heights)), dpi=_DPI, layout="constrained")
        parts = figure.subfigures(len(charts), 1, height_ratios=heights, squeeze=False)
        for chart, (part,) in zip(charts, parts, strict=True):
            part.suptitle(chart.title, fontweight="bold", fontsize=11)
            _draw(part, chart)
        out = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()


def _inches(chart: Chart) -> float:
    if isinstance(chart, Steps):
        return 0.9 + _PANEL_INCHES * len(chart.panels)
    if isinstance(chart, Bars):
        return 2.0 + 0.42 * len(chart.bars)
    return 4.6


def _draw(part: Any, chart: Chart) -> None:
    match chart:
        case Bars():
            _bars(part.subplots(), chart)
        case Steps():
            _steps(part, chart)
        case Points():
            _points(part, chart)
        case Heat():
            _heat(part, chart)


def _bars(axis: Any, chart: Bars) -> None:
    rows = list(range(len(chart.bars)))
    start = [0.0] * len(rows)
    for number, consumer in enumerate(chart.parts):
        widths = [count / GIB for count in consumer.bytes]
        axis.barh(
            rows,
            widths,
            left=start,
            height=0.62,
            label=consumer.name,
            color=COLOURS[number % len(COLOURS)],
            hatch=PATTERNS[number // len(COLOURS) % len(PATTERNS)],
            edgecolor="white",
            linewidth=0.5,
        )
        start = [left + width for left, width in zip(start, widths, strict=True)]
    for row, limit in zip(rows, chart.limits, strict=True):
        axis.plot([limit / GIB] * 2, [row - 0.42, row + 0.42], color="black", linewidth=2)
    axis.plot([], [], color="black", linewidth=2, label="quota")
    axis.set_yticks(rows, chart.bars)
    axis.invert_yaxis()
    axis.set_xlabel("GiB")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _steps(part: Any, chart: Steps) -> None:
    at = [chart.x.drawn(value) for value in chart.at]
    axes = part.subplots(len(chart.panels), 1, sharex=True, squeeze=False)
    for number, (panel, (axis,)) in enumerate(zip(chart.panels, axes, strict=True)):
        values = [panel.scale.drawn(value) for value in panel.values]
        nothing = [float("nan") if value is None else value for value in values]
        axis.step(at, nothing, where="post", color=COLOURS[number % len(COLOURS)], linewidth=1.6)
        axis.set_ylabel(_folded(panel.scale), fontsize=9)
        _ticks(axis.yaxis, panel.scale)
        axis.grid(alpha=0.3)
        for mark in chart.marks:
            axis.axvline(chart.x.drawn(mark.at), color="black", linestyle=":", linewidth=1)
            if number == 0:
                axis.annotate(
                    mark.text,
                    (chart.x.drawn(mark.at), 1),
                    xycoords=("data", "axes fraction"),
                    ha="center",
                    va="bottom",
                    fontsize=8,
                )
    axes[-1][0].set_xlabel(chart.x.title)
    _ticks(axes[-1][0].xaxis, chart.x)


def _folded(scale: Scale) -> str:
    return scale.title.replace(" (", "\n(")


def _ticks(axis: Any, scale: Scale) -> None:
    if scale.names:
        axis.set_ticks(range(len(scale.names)), scale.names)
    elif scale.unit != "bytes":
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _points(part: Any, chart: Points) -> None:
    axis = part.subplots()
    x, y = ([s.drawn(v) for v in column] for s, column in _columns(chart)[:2])
    if len(chart.scales) == 2:
        axis.step(x, y, where="pre", color=COLOURS[0], linewidth=1, alpha=0.6)
        axis.scatter(x, y, color=COLOURS[0], s=22, zorder=3)
    else:
        scale, column = _columns(chart)[2]
        drawn = axis.scatter(x, y, c=[scale.drawn(v) for v in column], cmap="cividis", s=26)
        part.colorbar(drawn, ax=axis, label=scale.title)
    axis.set_xlabel(chart.scales[0].title)
    axis.set_ylabel(chart.scales[1].title)
    _ticks(axis.xaxis, chart.scales[0])
    _ticks(axis.yaxis, chart.scales[1])
    axis.grid(alpha=0.3)


def _columns(chart: Points) -> list[tuple[Scale, tuple[int, ...]]]:
    return list(zip(chart.scales, zip(*chart.points, strict=True), strict=True))


def _heat(part: Any, chart: Heat) -> None:
    axis = part.subplots()
    rows = [[_number(chart.value, value) for value in row] for row in chart.values]
    drawn = axis.imshow(rows, origin="lower", aspect="auto", cmap="cividis")
    for which, scale, at in (("x", chart.x, chart.at_x), ("y", chart.y, chart.at_y)):
        places = sorted({round(i * (len(at) - 1) / 5) for i in range(6)})
        labels = [
            f"{scale.drawn(at[i]):,.4g}" if scale.unit == "bytes" else f"{at[i]:,}" for i in places
        ]
        getattr(axis, f"set_{which}ticks")(places, labels)
        getattr(axis, f"set_{which}label")(scale.title)
    bar = part.colorbar(drawn, ax=axis, label=chart.value.title)
    if chart.value.names:
        bar.set_ticks(range(len(chart.value.names)), labels=chart.value.names)


def _label(scale: Scale, value: int) -> str:
    return f"{scale.drawn(value):,.4g}" if scale.unit == "bytes" else f"{value:,}"


def _number(scale: Scale, value: int | None) -> float:
    drawn = scale.drawn(value)
    return float("nan") if drawn is None else float(drawn)
