"""Files: complete or not there at all, in either form."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kvplan.models import InvalidProblem
from kvplan.solver.explore import explore, files
from kvplan.solver.explore.files import check_target, write_table
from support.cases import load


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return explore(load("strata_765"), {"ranks.*.quota": "5GiB:7GiB:1GiB"})


def test_csv_is_plain(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "x.csv"
    write_table(table, path)
    lines = path.read_bytes().decode().split("\n")
    assert lines[0].startswith("ranks.*.quota,status,blocks:kv,prefill,experts,slack,shortfall")
    assert lines[1].startswith(f"{5 * 2**30},infeasible,,,,,")
    assert lines[3].startswith(f"{7 * 2**30},optimal,2048,11008,")
    assert (len(lines), lines[-1]) == (5, "")


def test_json_lines_have_a_row_each(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "x.jsonl"
    write_table(table, path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["ranks.*.quota"] for row in rows] == [5 * 2**30, 6 * 2**30, 7 * 2**30]
    assert [row["status"] for row in rows] == table["status"].tolist()
    assert rows[0]["experts"] is None
    assert rows[2]["experts"] == table["experts"][2]


def test_parquet_keeps_every_value_and_type(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "x.PARQUET"
    write_table(table, path)
    pd.testing.assert_frame_equal(pd.read_parquet(path), table)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_fails_half_way_leaves_the_old_one(
    suffix: str, tmp_path: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"x.{suffix}"
    path.write_text("old")

    def fail(_: pd.DataFrame, target: Path, **__: Any) -> None:
        assert Path(target).parent == tmp_path
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, f"to_{suffix}", fail)
    with pytest.raises(OSError, match="No space left"):
        write_table(table, path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "old"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_interrupt_leaves_valid_files(
    suffix: str, tmp_path: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"x.{suffix}"
    write_table(table, path)
    before = path.read_bytes()

    def interrupted(_: pd.DataFrame, target: Path, **__: Any) -> None:
        Path(target).write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pd.DataFrame, f"to_{suffix}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_table(table, path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


KILLED = """
import os, signal, sys
from pathlib import Path
import pandas as pd
from kvplan.solver.explore.files import write_table

def killed(_, target, **__):
    Path(target).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

pd.DataFrame.to_csv = killed
write_table(pd.DataFrame({"a": [1]}), Path(sys.argv[1]))
"""


@pytest.mark.skipif(os.name != "posix", reason="asks whether a process lives")
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL
        left = [each.name for each in tmp_path.iterdir() if each != path]
        assert len(left) == 1, "a killed run leaves its own part and removes those before it"
        assert path.read_text() == "old"
    check_target(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_parts_of_others_stay(tmp_path: Path, table: pd.DataFrame) -> None:
    """Of a run that still goes on, of another machine, and of another file."""
    path = tmp_path / "x.csv"
    running = files._part_of(path).name.replace(str(os.getpid()), str(os.getppid()))
    others = {running, ".00000000.00000000.999999999.part", ".hidden.part", "notes.part"}
    for name in others:
        (tmp_path / name).write_text("theirs")
    write_table(table, path)
    assert {each.name for each in tmp_path.iterdir()} == {*others, path.name}


def test_what_is_there_is_replaced_and_keeps_its_mode(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")
    path.chmod(0o640)
    write_table(table, path)
    assert path.read_text().startswith("ranks")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    fresh = tmp_path / "y.csv"
    write_table(table, fresh)
    assert fresh.stat().st_mode & 0o444 == 0o444 & ~_umask()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.csv", "y.csv"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_link_is_followed(tmp_path: Path, table: pd.DataFrame) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "there" / "x.csv")
    check_target(link)
    write_table(table, link)
    assert link.is_symlink()
    assert (tmp_path / "there" / "x.csv").read_text().startswith("ranks")


def refusal(path: Path) -> str:
    with pytest.raises(InvalidProblem) as caught:
        check_target(path)
    return str(caught.value)


@pytest.mark.parametrize("name", ["x.txt", "x", "x.csv.gz", ".csv"])
def test_another_ending_is_refused(name: str, tmp_path: Path) -> None:
    assert refusal(tmp_path / name).startswith(
        "--out: expected a file ending in .csv, .jsonl or .parquet"
    )


def test_a_folder_that_is_not_there_and_one_in_the_way_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dir.csv").mkdir()
    for path in (tmp_path / "nope" / "x.csv", tmp_path / "dir.csv"):
        assert refusal(path).startswith("--out: expected a file in a folder that exists, got ")


def test_a_folder_without_the_right_to_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    assert refusal(tmp_path / "x.csv").startswith("--out: expected a folder that can be written to")


def test_parquet_without_pyarrow_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "find_spec", lambda _: None)
    line = refusal(tmp_path / "x.parquet")
    assert line.startswith("--out: expected pyarrow for a .parquet file (pip install 'kvplan[")
    assert "\n" not in line
    check_target(tmp_path / "x.csv")


def test_what_cannot_be_written_is_told_before_anything_is_solved(tmp_path: Path) -> None:
    circle = tmp_path / "circle.csv"
    circle.symlink_to(circle)
    for path in (circle, tmp_path / f"{'x' * 300}.csv"):
        with pytest.raises(InvalidProblem, match="--out: expected a file that can be written"):
            check_target(path)
    assert list(tmp_path.iterdir()) == [circle]


def test_the_longest_name_can_be_written(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / f"{'x' * 250}.csv"
    check_target(path)
    write_table(table, path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
