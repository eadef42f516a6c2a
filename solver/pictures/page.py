"""One HTML file with tables and charts: no network, readable on a phone and in the dark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape

from plotly.offline import get_plotlyjs

from kvplan.models.units import exact_bytes
from kvplan.solver.pictures.chart import Chart
from kvplan.solver.pictures.plotly_figure import plotly_figure
from kvplan.solver.report.document import Document, Lines, Table

_STYLE = """
:root { color-scheme: light dark;
  --text: #1b1b1b; --back: #ffffff; --rule: #d0d0d0; --weak: #606060 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8e8; --back: #16181b; --rule: #3a3d42; --weak: #a0a0a0 }
}
body { color: var(--text); background: var(--back); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 70rem; padding: 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; white-space: nowrap }
td.figure, th.figure { text-align: right }
th { border-bottom: 1px solid var(--rule); font-weight: 600 }
tbody + tbody td { border-top: 1px solid var(--rule) }
tr.bad td, p.bad { font-weight: 600 }
pre { overflow-x: auto; border: 1px solid var(--rule); padding: .6rem; font-size: 13px }
footer { color: var(--weak); margin-top: 2rem; overflow-wrap: anywhere }
"""
_SCRIPT = """
const charts = JSON.parse(document.getElementById("charts").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function coloured(layout) {
  const style = getComputedStyle(document.documentElement);
  const text = style.getPropertyValue("--text").trim();
  const back = style.getPropertyValue("--back").trim();
  const rule = style.getPropertyValue("--rule").trim();
  const changed = {...layout, paper_bgcolor: back, plot_bgcolor: back, font: {color: text}};
  for (const key of Object.keys(layout)) {
    if (/^[xy]axis/.test(key)) changed[key] = {...layout[key], gridcolor: rule, linecolor: rule};
  }
  return changed;
}
function draw() {
  charts.forEach((chart, number) => Plotly.react(
    document.getElementById("chart" + number), chart.data, coloured(chart.layout),
    {responsive: true, displaylogo: false}));
}
draw();
dark.addEventListener("change", draw);
"""


def page(
    title: str, document: Document, charts: Sequence[Chart], *, source: str = "", footer: str = ""
) -> str:
    """The page as text; the same contents give the same text.

    Parameters
    ----------
    document : the tables above the charts.
    source : the problem as its file has it, folded away.
    footer : one line, such as the digest.
    """
    figures = [plotly_figure(chart) for chart in charts]
    drawn = json.dumps(figures, separators=(",", ":")).replace("<", "\\u003c")
    sections = "\n".join(
        f'<section><h2>{escape(chart.title)}</h2><div id="chart{number}"></div></section>'
        for number, chart in enumerate(charts)
    )
    folded = f"<details><summary>The problem</summary><pre>{escape(source)}</pre></details>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        f"{''.join(_parts(document))}\n{sections}\n{folded if source else ''}\n"
        f"<footer>{escape(footer)}</footer>\n"
        f'<script type="application/json" id="charts">{drawn}</script>\n'
        f"<script>{get_plotlyjs()}</script>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def _parts(document: Document) -> Iterator[str]:
    for part in document:
        if isinstance(part, Lines):
            yield from (f'<p class="{part.state}">{escape(text)}</p>\n' for text in part.texts)
        elif part.rows:
            yield from _table(part.without_empty_columns())


def _table(table: Table) -> Iterator[str]:
    kinds = ["" if column.kind == "text" else ' class="figure"' for column in table.columns]
    heads = zip(kinds, table.columns, strict=True)
    yield f'<h2>{escape(table.title)}</h2>\n<div class="scroll"><table>\n<thead><tr>'
    yield "".join(f"<th{kind}>{escape(column.title)}</th>" for kind, column in heads)
    yield "</tr></thead>\n"
    for section in table.sections:
        yield "<tbody>\n"
        for row in section:
            cells = zip(kinds, map(_cell, row.cells), strict=True)
            inner = "".join(f"<td{kind}>{text}</td>" for kind, text in cells)
            yield f'<tr class="{row.state}">{inner}</tr>\n'
        yield "</tbody>\n"
    yield "</table></div>\n"


def _cell(value: str | int | None) -> str:
    if value is None:
        return ""
    return escape(value if isinstance(value, str) else exact_bytes(value))
