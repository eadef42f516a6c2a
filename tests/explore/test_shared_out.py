"""Large sweeps in parts: shared out to workers, kept on disk, and always the same table."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kvplan.models import InvalidProblem
from kvplan.solver.explore import explore
from kvplan.solver.explore.grid import build_grid
from kvplan.solver.explore.sharing import shared_out
from kvplan.solver.explore.sharing.kept_parts import KeptParts
from kvplan.solver.explore.sharing.parts import joined, parts_of
from kvplan.solver.explore.sweep import solve_grid
from support.cases import CASES, load
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]
VARY = {"experts.min_slots": "0:11:1", "ranks.*.quota": "12GiB:16GiB:64MiB"}


@pytest.fixture(scope="module")
def whole() -> pd.DataFrame:
    return explore(load("strata_765"), VARY)


@pytest.mark.parametrize("rows", [1, 7, 65, 66, 400, 779, 780, 10_000])
def test_parts_are_the_rows_in_order(rows: int) -> None:
    grid = build_grid(load("strata_765"), VARY)
    parts = parts_of(grid, rows)
    assert [part.start for part in parts] == [
        sum(len(part.grid) for part in parts[:index]) for index in range(len(parts))
    ]
    assert sum(len(part.grid) for part in parts) == len(grid)
    assert all(len(part.grid) <= rows for part in parts)
    for part in parts:
        for row in {0, len(part.grid) - 1}:
            assert part.grid.figures_at(row) == grid.figures_at(part.start + row)


def test_parts_below_one_another_are_the_whole(whole: pd.DataFrame) -> None:
    from kvplan.solver.explore.result_table import table_of

    grid = build_grid(load("strata_765"), VARY)
    figures = joined([solve_grid(part.grid) for part in parts_of(grid, 100)])
    pd.testing.assert_frame_equal(table_of(grid, figures), whole)


def test_threads_and_processes_give_the_same_table(whole: pd.DataFrame) -> None:
    with ThreadPoolExecutor(3) as threads:
        pd.testing.assert_frame_equal(explore(load("strata_765"), VARY, executor=threads), whole)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as processes:
        pd.testing.assert_frame_equal(explore(load("strata_765"), VARY, executor=processes), whole)


class Losing(Executor):
    """Loses every third part, as a pool does whose worker was killed."""

    def __init__(self) -> None:
        self.sent = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.sent += 1
        if self.sent % 3:
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(BrokenProcessPool("a worker died"))
        return future


def test_the_part_of_a_lost_worker_is_solved_again(whole: pd.DataFrame) -> None:
    losing = Losing()
    pd.testing.assert_frame_equal(explore(load("strata_765"), VARY, executor=losing), whole)
    assert losing.sent > 3


def test_a_fault_in_a_worker_is_the_same_fault() -> None:
    """A row in the middle asks for a floor above the most; corners are valid."""
    vary = {"pools.kv.multiple_of": [1, 10**9, 2], "prefill.requested": "4096:8192:64"}
    problem = load("strata_765", "pools.kv.max_blocks=4096")
    texts = []
    for executor in (None, ThreadPoolExecutor(2)):
        with pytest.raises(InvalidProblem) as caught:
            explore(problem, {**vary, "experts.max_slots": [200, 100, 300]}, executor=executor)
        texts.append(str(caught.value.faults[0]))
    assert texts[0] == texts[1]


def test_a_stopped_sweep_goes_on_from_its_parts(
    whole: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.parquet"
    monkeypatch.setattr("kvplan.solver.explore.sharing.parts.BATCHED_ROWS", 100)
    solved: list[int] = []

    def stopping(grid: Any, progress: Any = None) -> Any:
        if len(solved) == 3:
            raise KeyboardInterrupt
        solved.append(len(grid))
        return solve_grid(grid, progress)

    monkeypatch.setattr(shared_out, "solve_grid", stopping)
    with pytest.raises(KeyboardInterrupt):
        explore(load("strata_765"), VARY, keep_beside=target)
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.iterdir())) == 3
    done: list[tuple[int, int]] = []
    monkeypatch.setattr(shared_out, "solve_grid", solve_grid)
    table = explore(
        load("strata_765"),
        VARY,
        keep_beside=target,
        progress=lambda rows, total: done.append((rows, total)),
    )
    pd.testing.assert_frame_equal(table, whole)
    assert done[0][0] == solved[0]
    assert done[-1] == (len(whole), len(whole))
    assert list(tmp_path.iterdir()) == []


def test_parts_of_another_sweep_and_broken_parts_are_not_read(tmp_path: Path) -> None:
    target, problem = tmp_path / "x.csv", load("strata_765")
    grid = build_grid(problem, VARY)
    kept = KeptParts(target, grid)
    part = parts_of(grid, 100)[1]
    kept.write(part, solve_grid(part.grid))
    assert kept.read(part) is not None
    other = build_grid(problem, {**VARY, "experts.min_slots": "1:12:1"})
    assert KeptParts(target, other).folder != kept.folder
    (file,) = kept.folder.iterdir()
    file.write_bytes(file.read_bytes()[:-50])
    assert kept.read(part) is None


def test_a_killed_command_goes_on_and_writes_the_same_bytes(tmp_path: Path) -> None:
    """Weighted goals are solved row by row, in parts of 128."""
    arguments = [
        *(sys.executable, "-m", "kvplan", "explore", CASES["strata_765"]),
        *("--set", 'goals=[{"maximize": {"prefill": 1, "experts": 3}}]'),
        *("--vary", "ranks.*.quota=13GiB:16GiB:6MiB", "--out"),
    ]
    straight, killed = tmp_path / "a.csv", tmp_path / "b.csv"
    process = subprocess.Popen([*arguments, killed], stdout=subprocess.DEVNULL)
    for _ in range(600):
        if list(tmp_path.glob(".b.csv.*.parts/*.npz")) or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(tmp_path.glob(".b.csv.*.parts/*.npz"))
    assert not killed.exists()
    for path in (killed, straight):
        subprocess.run([*arguments, path], check=True, stdout=subprocess.DEVNULL)
    assert killed.read_bytes() == straight.read_bytes()
    assert sorted(tmp_path.iterdir()) == [straight, killed]


def test_workers_on_the_command_line(capsys: Capture, tmp_path: Path) -> None:
    sweep = ("explore", CASES["strata_765"], "--vary", "ranks.*.quota=12GiB:16GiB:8MiB")
    alone = run_kvplan(capsys, *sweep)
    shared = run_kvplan(capsys, *sweep, "--workers", "2")
    assert (shared.code, shared.out) == (alone.code, alone.out)
    both = run_kvplan(capsys, *sweep, "--workers", "2", "--ray", "local")
    assert both.code == 2
    assert both.err == "--ray: expected one of --workers and --ray, got both\n"


def test_ray_shares_out_and_survives_a_lost_worker(whole: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray (pip install 'kvplan[ray]')")
    from kvplan.solver.explore.sharing.on_ray import RayExecutor

    mark = str(tmp_path / "killed once")

    def die_once() -> str:  # nested, so that it is sent by value
        if os.path.exists(mark):
            return "redone"
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    with RayExecutor() as cluster:
        pids = {cluster.submit(os.getpid).result() for _ in range(4)}
        assert os.getpid() not in pids
        lost = cluster.submit(die_once)
        table = explore(load("strata_765"), VARY, executor=cluster)
        assert lost.result() == "redone"
    pd.testing.assert_frame_equal(table, whole)
