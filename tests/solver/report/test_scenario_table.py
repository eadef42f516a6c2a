"""Scenarios on a terminal: units, bytes in human form, one record a row where it is narrow."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kvplan.solver.explore import explore
from kvplan.solver.report.scenario_table import MOST_ROWS, scenario_document
from kvplan.solver.report.terminal import print_document
from support.cases import load

FIELD = "ranks.*.quota"


def drawn(values: str, width: int) -> str:
    table = explore(load("strata_765"), {FIELD: values})
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    print_document(scenario_document(table, (FIELD,)), console)
    return file.getvalue()


def test_a_wide_screen_has_a_table_with_units() -> None:
    lines = drawn("5GiB:7GiB:1GiB", 100).splitlines()
    assert lines[1].split() == ["blocks:kv", "prefill", "experts"]
    assert lines[2].split()[2:5] == ["blocks", "tokens", "slots"]
    refused, planned = lines[4].split(), lines[5].split()
    assert refused == ["5.00", "GiB", "infeasible", "-828.40", "MiB", "gpu", "prefill"]
    assert planned[:3] == ["6.00", "GiB", "optimal"]
    assert planned[3:6] == ["2_048", "768", "199"]


def test_a_narrow_screen_names_each_figure() -> None:
    text = " ".join(drawn("5GiB:6GiB:1GiB", 60).split())
    assert f"{FIELD} 5.00 GiB, status infeasible, slack -828.40 MiB, tightest gpu prefill" in text
    assert "prefill 768, experts 199" in text


@pytest.mark.parametrize(("rows", "more"), [(MOST_ROWS, ""), (MOST_ROWS + 7, "7 rows more: --out")])
def test_many_rows_are_left_to_a_file(rows: int, more: str) -> None:
    text = drawn(f"5GiB:{5 * 1024 + rows - 1}MiB:1MiB", 120)
    assert text.count(" gpu ") == MOST_ROWS
    assert ("rows more" in text) == bool(more)
    assert more in text
