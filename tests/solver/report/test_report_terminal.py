"""How a report is drawn on a terminal: bars, colours, and screens of any width."""

from __future__ import annotations

import io
import re
from typing import TextIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from kvplan.models import Advice, Claim, Infeasible, Plan, Remedy
from kvplan.models.plan import LedgerLine
from kvplan.solver.report import document_of, print_report, report
from kvplan.solver.report.terminal import print_document
from support.plans import GIB, plan_of, rank_plan, refusal

BLOCKS = set("▏▎▍▌▋▊▉█")


def drawn(answer: Plan | Infeasible, width: int) -> str:
    """What a terminal of this width shows, colours apart."""
    file = io.StringIO()
    draw(answer, width, file)
    return file.getvalue()


def draw(answer: Plan | Infeasible, width: int, file: TextIO) -> None:
    console = Console(
        file=file,
        width=width,
        force_terminal=True,
        color_system=None,
        highlight=False,
        legacy_windows=False,
    )
    print_document(document_of(answer), console)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_terminal_of_any_width_is_never_overrun(width: int) -> None:
    ranks = [rank_plan("a-rather-long-rank-name-0"), rank_plan("r1", quota=10 * GIB)]
    for answer in (plan_of(*ranks), refusal(rank_plan(quota=8 * GIB))):
        text = drawn(answer, width)
        assert max(map(cell_len, text.splitlines())) <= width
        assert "…" not in text, "folded, not cut"
        assert "9.00 GiB" in text


def test_bars_are_drawn_against_the_quota() -> None:
    text = drawn(plan_of(), 200)
    rows = {row.split("  ")[0]: row for row in text.splitlines() if BLOCKS & set(row)}
    width = 40
    assert rows["kv"].rstrip().endswith("█" * 15 + "·" * 25)  # 37.5 % of 40
    assert rows["arena"].rstrip().endswith("██▌" + "·" * 37)  # 6.25 %: two and a half
    assert rows["used in prefill"].count("█") == width * 9 // 16
    over = drawn(refusal(), 200)
    (row,) = [line for line in over.splitlines() if line.startswith("used in prefill")]
    assert row.count("█") == width, "over the quota: full"


def test_a_narrow_table_drops_bars_then_percentages_and_integers_last() -> None:
    wide, common, small = (drawn(plan_of(), width) for width in (120, 80, 40))
    assert BLOCKS & set(wide)
    assert not BLOCKS & set(common)
    assert "37.5 %" in wide
    assert "6_442_450_944 B (6.00 GiB)" in common
    (row,) = [line for line in small.splitlines() if line.startswith("kv ")]
    assert row.split()[-2:] == ["6.00", "GiB"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_width_drops_a_phase_a_name_or_what_binds(width: int) -> None:
    text = drawn(plan_of(), width)
    (row,) = [line for line in text.splitlines() if line.startswith("used in prefill")]
    assert row.rstrip(" ·▏▎▍▌▋▊▉█").endswith("binding")
    (row,) = [line for line in text.splitlines() if line.startswith("kv ")]
    assert "prefill" in row
    assert "r0    prefill" in text


LONG = "batches.a batch with a name of many words.requests.a request.capacity"


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_value_to_paste_is_never_folded(width: int) -> None:
    remedy = Remedy(LONG, 65_536, 10_688, "request a request: a capacity of 10_688 tokens")
    claim = Claim("request", LONG, "request a request: 65_536 tokens")
    error = Infeasible(["short"], advice=Advice((claim,), (remedy,)))
    text = drawn(error, width)
    assert f"'{LONG}=10688'" in text
    assert f"{LONG}\n" in text.replace(" \n", "\n")


def test_a_terminal_too_small_for_any_table_gets_plain_text() -> None:
    assert drawn(plan_of(), 30) == report(plan_of())


def test_a_terminal_without_unicode_gets_ascii_bars() -> None:
    screen = io.BytesIO()
    stream = io.TextIOWrapper(screen, encoding="ascii", write_through=True)
    draw(plan_of(), 120, stream)
    text = screen.getvalue().decode("ascii")
    (row,) = [line for line in text.splitlines() if line.startswith("kv ")]
    assert re.search(r"#+\.+ *$", row)


def test_markup_in_names_is_text() -> None:
    line = LedgerLine(consumer="[red]x[/]", bytes=1, source="solved", phases=("load",))
    assert "[red]x[/]" in drawn(plan_of(rank_plan(ledger=(line,))), 120)


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_colour_and_bars_only_where_the_stream_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    screen, file = Screen(), io.StringIO()
    print_report(plan_of(), None, screen)
    print_report(plan_of(), None, file)
    assert file.getvalue() == report(plan_of())
    assert "\x1b[" in screen.getvalue()
    assert "█" in screen.getvalue()


@pytest.mark.parametrize("quota", [0, -5 * GIB])
def test_without_a_quota_whatever_is_used_is_too_much(quota: int) -> None:
    text = drawn(refusal(rank_plan(quota=quota)), 200)
    (row,) = [line for line in text.splitlines() if line.startswith("kv ")]
    assert row.count("█") == 40
