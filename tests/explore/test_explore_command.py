"""kvplan explore: CSV, JSON and files; exit codes; a progress bar on a terminal only."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kvplan.solver import explore as package
from kvplan.solver.explore import explore
from kvplan.solver.explore.sharing import shared_out
from kvplan.solver.explore.sweep import solve_grid
from support.cases import CASES, load
from support.cli import run_kvplan, spawn
from support.explored import records

Capture = pytest.CaptureFixture[str]
FILE = CASES["strata_765"]
QUOTAS = ("--vary", "ranks.*.quota=5GiB:7GiB:1GiB")


def table() -> pd.DataFrame:
    return explore(load("strata_765"), {"ranks.*.quota": "5GiB:7GiB:1GiB"})


def test_csv_goes_to_standard_output(capsys: Capture) -> None:
    done = run_kvplan(capsys, "explore", FILE, *QUOTAS)
    assert (done.code, done.err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    expected = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in records(table())
    ]
    assert rows == expected


def test_json_is_a_list_of_rows(capsys: Capture) -> None:
    done = run_kvplan(capsys, "explore", FILE, *QUOTAS, "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == records(table())


def test_a_file_is_written_and_reported(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    done = run_kvplan(capsys, "explore", FILE, *QUOTAS, "--out", path)
    assert done == (0, f"3 rows (2 optimal, 1 infeasible) in {path}\n", "")
    assert path.read_text() == run_kvplan(capsys, "explore", FILE, *QUOTAS).out
    with_json = run_kvplan(capsys, "explore", FILE, *QUOTAS, "--out", path, "--json")
    assert json.loads(with_json.out) == records(table())


def test_several_fields_make_a_grid_and_set_holds_for_all(capsys: Capture) -> None:
    capacity = "batches.longest.requests.context.capacity"
    vary = ("--vary", "ranks.*.quota=6GiB,7GiB", "--vary", f"{capacity}=131072:262144:131072")
    done = run_kvplan(capsys, "explore", FILE, *vary, "--set", "goals=[experts]", "--json")
    varied = {"ranks.*.quota": "6GiB,7GiB", capacity: "131072:262144:131072"}
    assert json.loads(done.out) == records(explore(load("strata_765", "goals=[experts]"), varied))


def test_a_problem_may_come_from_standard_input() -> None:
    done = spawn("explore", "-", *QUOTAS, text=FILE.read_text())
    assert (done.code, done.err) == (0, "")
    assert done.out.count("\n") == 4


def test_no_plan_in_any_row_is_exit_code_1(capsys: Capture) -> None:
    done = run_kvplan(capsys, "explore", FILE, "--vary", "ranks.*.quota=1GiB:2GiB:1GiB")
    assert (done.code, done.err) == (1, "")
    assert done.out.count("infeasible") == 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--vary", "ranks.*.quota"], "--vary: expected PATH=A:B:STEP, got 'ranks.*.quota'"),
        (["--vary", "=1:2:1"], "--vary: expected PATH=A:B:STEP, got '=1:2:1'"),
        (["--vary", "ranks.*.quota=1:2"], "ranks.*.quota: expected A:B:STEP or A,B,C, got '1:2'"),
        ([*QUOTAS, *QUOTAS], "--vary: expected each field once, got 'ranks.*.quota' twice"),
        (
            ["--vary", "ranks.*.quota=0:16GiB:1KiB"],
            "ranks.*.quota: expected at most 10_000_000 rows, got 16_777_217",
        ),
        (
            [*QUOTAS, "--out", "x.xls"],
            "--out: expected a file ending in .csv, .jsonl, .parquet, .png, .svg or .html, got",
        ),
        ([*QUOTAS, "--set", "nope=1"], "nope: expected "),
        ([], "kvplan: Missing option '--vary'"),
    ],
)
def test_bad_arguments_are_one_line(arguments: list[str], line: str, capsys: Capture) -> None:
    done = run_kvplan(capsys, "explore", FILE, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(line)
    assert done.err.count("\n") == 1


def test_a_bad_target_is_refused_before_the_problem_is_read(capsys: Capture) -> None:
    done = run_kvplan(capsys, "explore", "nope.yaml", *QUOTAS, "--out", "/nope/x.csv")
    assert done.err == "--out: expected a file in a folder that exists, got '/nope/x.csv'\n"


def test_an_interrupt_leaves_no_file(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(package, "explore", interrupted)
    done = run_kvplan(capsys, "explore", FILE, *QUOTAS, "--out", tmp_path / "x.csv")
    assert (done.code, done.out) == (130, "")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_says_that_finished_parts_are_kept(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved: list[int] = []

    def stopping(grid: Any, progress: Any = None) -> Any:
        if solved:
            raise KeyboardInterrupt
        solved.append(len(grid))
        return solve_grid(grid, progress)

    sweep = ("explore", FILE, *QUOTAS, "--out", tmp_path / "x.csv")
    monkeypatch.setattr("kvplan.solver.explore.sharing.parts.SINGLE_ROWS", 1)
    with monkeypatch.context() as patched:
        patched.setattr(shared_out, "solve_grid", stopping)
        done = run_kvplan(capsys, *sweep)
    line = "stopped; finished parts are kept: the same command goes on\n"
    assert (done.code, done.out, done.err) == (130, "", line)
    assert run_kvplan(capsys, *sweep).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_a_disk_that_is_full_is_one_line(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    done = run_kvplan(capsys, "explore", FILE, *QUOTAS, "--out", tmp_path / "x.csv")
    assert done == (3, "", "kvplan: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_terminal_gets_a_bar_on_standard_error_and_the_output_stays_clean() -> None:
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    many = ("--vary", "ranks.*.quota=5GiB:12GiB:32MiB")
    command = [sys.executable, "-m", "kvplan.solver.cli", "explore", str(FILE), *many]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm", "PYTHONUTF8": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        shown = b""
        while part := _read(leader):
            shown += part
        assert process.stdout is not None
        out = process.stdout.read().decode()
        assert process.wait(60) == 0
    os.close(leader)
    assert "/225" in shown.decode()
    assert out.count("\n") == 226
    assert "\x1b" not in out


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # the other end was closed
        return b""
