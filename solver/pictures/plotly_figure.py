"""Charts as plotly figures: plain data and layout, with exact values on hover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.solver.pictures.chart import (
    COLOURS,
    PATTERNS,
    Bars,
    Chart,
    Heat,
    Points,
    Scale,
    Steps,
)

Json = dict[str, Any]
_GIB = Scale("bytes", "bytes")


def plotly_figure(chart: Chart) -> Json:
    """A figure as `Plotly.newPlot` takes it: data and layout.

    Colours of text and background are left to the page, which may be dark.
    """
    match chart:
        case Bars():
            data, layout = list(_bars(chart)), _bars_layout(chart)
        case Steps():
            data, layout = list(_steps(chart)), _steps_layout(chart)
        case Points():
            data, layout = [_points(chart)], _two_axes(*chart.scales[:2], height=440)
        case Heat():
            data, layout = [_heat(chart)], _two_axes(chart.x, chart.y, height=460)
    return {"data": data, "layout": {**layout, "margin": {"t": 28, "r": 16, "b": 48, "l": 64}}}


def _axis(scale: Scale, **more: Any) -> Json:
    axis: Json = {"title": {"text": scale.title}, "automargin": True, "zeroline": False, **more}
    if scale.names:
        return {**axis, "tickvals": list(range(len(scale.names))), "ticktext": list(scale.names)}
    return axis if scale.unit == "bytes" else {**axis, "tickformat": ",d"}


def _two_axes(x: Scale, y: Scale, *, height: int) -> Json:
    return {"xaxis": _axis(x), "yaxis": _axis(y), "height": height}


def _bars(chart: Bars) -> Iterator[Json]:
    for number, part in enumerate(chart.parts):
        yield {
            "type": "bar",
            "orientation": "h",
            "name": part.name,
            "y": list(chart.bars),
            "x": [_GIB.drawn(count) for count in part.bytes],
            "text": [f"{part.name}: {_GIB.text(count)}" for count in part.bytes],
            "textposition": "none",
            "hovertemplate": "%{text}<extra>%{y}</extra>",
            "marker": {
                "color": COLOURS[number % len(COLOURS)],
                "pattern": {"shape": PATTERNS[number // len(COLOURS) % len(PATTERNS)]},
            },
        }
    yield {
        "type": "scatter",
        "mode": "markers",
        "name": "quota",
        "y": list(chart.bars),
        "x": [_GIB.drawn(limit) for limit in chart.limits],
        "text": [f"quota: {_GIB.text(limit)}" for limit in chart.limits],
        "hovertemplate": "%{text}<extra>%{y}</extra>",
        "marker": {"symbol": "line-ns-open", "size": 26, "line": {"width": 3}, "color": "#D00000"},
    }


def _bars_layout(chart: Bars) -> Json:
    return {
        "barmode": "stack",
        "height": 150 + 46 * len(chart.bars) + 22 * (len(chart.parts) // 3),
        "xaxis": {"title": {"text": "GiB"}, "automargin": True},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "legend": {"orientation": "h", "y": -0.4, "yanchor": "top"},
    }


def _steps(chart: Steps) -> Iterator[Json]:
    for number, panel in enumerate(chart.panels):
        yield {
            "type": "scatter",
            "mode": "lines",
            "name": panel.scale.label,
            "line": {"shape": "hv", "color": COLOURS[number % len(COLOURS)], "width": 2},
            "x": [chart.x.drawn(value) for value in chart.at],
            "y": [panel.scale.drawn(value) for value in panel.values],
            "text": [
                _point_text((panel.scale, chart.x), (value, at))
                for at, value in zip(chart.at, panel.values, strict=True)
            ],
            "hovertemplate": "%{text}<extra></extra>",
            "xaxis": "x",
            "yaxis": _nth("y", number),
        }


def _steps_layout(chart: Steps) -> Json:
    count = len(chart.panels)
    layout: Json = {"height": 120 + 170 * count, "showlegend": count > 1}
    layout["legend"] = {"orientation": "h", "y": -0.3 / (count + 1), "yanchor": "top"}
    layout["xaxis"] = _axis(chart.x, anchor=_nth("y", count - 1))
    for number, panel in enumerate(chart.panels):
        top = 1 - number / count
        key = "yaxis" if number == 0 else f"yaxis{number + 1}"
        layout[key] = _axis(panel.scale, domain=[top - 0.84 / count, top])
        layout[key]["title"]["text"] = panel.scale.title.replace(" (", "<br>(")
    layout["shapes"] = [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": chart.x.drawn(mark.at),
            "x1": chart.x.drawn(mark.at),
            "y0": 0,
            "y1": 1,
            "line": {"dash": "dot", "width": 1, "color": "#808080"},
        }
        for mark in chart.marks
    ]
    layout["annotations"] = [
        {
            "text": mark.text,
            "hovertext": chart.x.text(mark.at),
            "x": chart.x.drawn(mark.at),
            "y": 1,
            "xref": "x",
            "yref": "paper",
            "yanchor": "bottom",
            "showarrow": False,
        }
        for mark in chart.marks
    ]
    return layout


def _nth(letter: str, number: int) -> str:
    return letter if number == 0 else f"{letter}{number + 1}"


def _points(chart: Points) -> Json:
    columns = list(zip(*chart.points, strict=True))
    drawn = [
        [scale.drawn(value) for value in column]
        for scale, column in zip(chart.scales, columns, strict=True)
    ]
    marker: Json = {"size": 9, "color": COLOURS[0]}
    if len(drawn) == 3:
        bar = {"title": {"text": chart.scales[2].title}}
        marker |= {"color": drawn[2], "colorscale": "Cividis", "colorbar": bar}
    return {
        "type": "scatter",
        "mode": "markers" if len(drawn) == 3 else "lines+markers",
        "line": {"shape": "vh", "width": 1, "color": COLOURS[0]},
        "x": drawn[0],
        "y": drawn[1],
        "marker": marker,
        "text": [_point_text(chart.scales, point) for point in chart.points],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _point_text(scales: tuple[Scale, ...], point: tuple[int | None, ...]) -> str:
    pairs = zip(scales, point, strict=True)
    return "<br>".join(f"{scale.label}: {scale.text(value)}" for scale, value in pairs)


def _heat(chart: Heat) -> Json:
    return {
        "type": "heatmap",
        "colorscale": "Cividis",
        "x": [chart.x.drawn(value) for value in chart.at_x],
        "y": [chart.y.drawn(value) for value in chart.at_y],
        "z": [[chart.value.drawn(value) for value in row] for row in chart.values],
        "text": [
            [
                _point_text((chart.value, chart.x, chart.y), (value, x, y))
                for x, value in zip(chart.at_x, row, strict=True)
            ]
            for y, row in zip(chart.at_y, chart.values, strict=True)
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "colorbar": {"title": {"text": chart.value.title}},
    }
