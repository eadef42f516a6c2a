"""kvplan solve --device: the plan that the host prints, or one line and exit code 2."""

from __future__ import annotations

import json
import sys

import pytest

from support.cases import CASES
from support.cli import run_kvplan
from support.scenarios import DEVICE

Capture = pytest.CaptureFixture[str]
FILE = CASES["strata_765"]
BISECT = ("--solver", "bisect")


@pytest.fixture
def _torch() -> None:
    pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.usefixtures("_torch")
def test_the_plan_is_the_host_s_and_says_where_it_was_found(capsys: Capture) -> None:
    host = run_kvplan(capsys, "solve", FILE, *BISECT)
    done = run_kvplan(capsys, "solve", FILE, *BISECT, "--device", DEVICE)
    assert (done.code, done.err) == (0, "")
    proven = "every goal proven by the nested search"
    assert f"optimal (solver bisect): {proven} on {DEVICE}, replayed block by block\n" in done.out
    assert done.out.replace(f"{proven} on {DEVICE}", proven) == host.out
    as_json = run_kvplan(capsys, "solve", FILE, *BISECT, "--device", DEVICE, "--json")
    assert json.loads(as_json.out)["proof"]["certificate"] == f"nested on {DEVICE}"


@pytest.mark.usefixtures("_torch")
def test_what_does_not_fit_is_exit_code_1(capsys: Capture) -> None:
    small = ("--set", "ranks.*.quota=5GiB")
    host = run_kvplan(capsys, "solve", FILE, *BISECT, *small)
    assert host.code == 1
    assert run_kvplan(capsys, "solve", FILE, *BISECT, *small, "--device", DEVICE) == host


@pytest.mark.usefixtures("_torch")
def test_lowered_floors_are_planned_for_on_the_device(capsys: Capture) -> None:
    lowered = ("--set", "ranks.*.quota=5GiB", "--set", "relax=[prefill, experts]", "--advise")
    host = run_kvplan(capsys, "solve", FILE, *BISECT, *lowered, "--json")
    done = run_kvplan(capsys, "solve", FILE, *BISECT, *lowered, "--device", DEVICE, "--json")
    assert done.out.replace(f"nested on {DEVICE}", "nested") == host.out


@pytest.mark.parametrize("solver", ["cp-sat", "auto"])
def test_another_solver_runs_on_no_device(solver: str, capsys: Capture) -> None:
    line = f"--device: expected --solver bisect beside it, got --solver {solver}\n"
    arguments = ("solve", FILE, "--solver", solver, "--device", "cpu")
    assert run_kvplan(capsys, *arguments) == (2, "", line)


def test_bisect_is_to_be_named(capsys: Capture) -> None:
    line = "--device: expected --solver bisect beside it, got --solver cp-sat\n"
    assert run_kvplan(capsys, "solve", FILE, "--device", "cpu") == (2, "", line)


@pytest.mark.usefixtures("_torch")
@pytest.mark.parametrize("name", ["nope", "cuda:4711", ""])
def test_a_device_that_does_not_exist_is_one_line(name: str, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", "nope.yaml", *BISECT, "--device", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("--device: expected a device that torch has here (cpu")
    assert done.err.endswith(f"got {name!r}\n")
    assert done.err.count("\n") == 1


def test_without_torch_it_is_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run_kvplan(capsys, "solve", FILE, *BISECT, "--device", "cuda")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("--device: expected torch for it (pip install 'kvplan[device]')")
    assert done.err.count("\n") == 1
