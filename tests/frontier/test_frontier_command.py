"""kvplan frontier: a table as CSV, JSON or a file; a refusal as kvplan solve prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from support.cases import CASES
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]
FILE = CASES["strata_765"]
GOALS = ("--goals", "prefill:8192,experts")


def test_csv_and_json_have_the_same_rows(capsys: Capture) -> None:
    """Strata #765: chunks of 24,576 tokens down to 256 against the expert slots beside them."""
    done = run_kvplan(capsys, "frontier", FILE, *GOALS)
    assert (done.code, done.err) == (0, "")
    header, *rows = done.out.splitlines()
    assert header.startswith("prefill,experts,status,blocks:kv,slack")
    assert [row.split(",")[:2] for row in rows] == [
        ["24576", "3565"],
        ["16384", "3831"],
        ["8192", "4097"],
        ["256", "4546"],
    ]
    as_json = run_kvplan(capsys, "frontier", FILE, *GOALS, "--json")
    assert [str(row["experts"]) for row in json.loads(as_json.out)] == [
        row.split(",")[1] for row in rows
    ]


def test_a_file_is_written(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "front.csv"
    done = run_kvplan(capsys, "frontier", FILE, *GOALS, "--out", path)
    assert done.code == 0
    assert len(pd.read_csv(path)) == 4


def test_a_refusal_says_what_would_help(capsys: Capture) -> None:
    done = run_kvplan(capsys, "frontier", FILE, *GOALS, "--set", "ranks.*.quota=1GiB")
    assert done.code == 1
    assert "rank gpu is short by" in done.out
    assert "ranks.gpu.quota" in done.out


def test_bad_goals_are_bad_input(capsys: Capture) -> None:
    done = run_kvplan(capsys, "frontier", FILE, "--goals", "prefil,experts")
    assert (done.code, done.out) == (2, "")
    assert done.err == "--goals: expected a variable: 'prefill', got 'prefil'\n"
