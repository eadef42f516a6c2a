"""kvplan solve: exit codes, the two forms of an answer, and its options."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import kvplan.solver
from kvplan.models import Disagreement, Plan, SolverError
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]

PROBLEM = """\
name: small
ranks: [{name: r0, quota: 1MiB}]
pools: [{name: kv, bytes: 4KiB}]
caches: [{name: full, kind: full}]
batches: [{name: one, requests: [{name: long, capacity: 8192, fit: capacity}]}]
consumers: [{name: weights, bytes: 512KiB}]
"""
# 512 KiB are 128 blocks of 4 KiB, 16 tokens each: 2,048 tokens.


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.yaml"
    path.write_text(PROBLEM)
    return path


def test_a_plan_is_reported_with_exit_0(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", problem)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("small\noptimal (solver cp-sat): every goal proven by CP-SAT")
    assert re.search(r"^capacity:long +2_048 +8_192 +tokens +reduced$", done.out, re.MULTILINE)
    assert "weights" in done.out
    assert "note: capacity:long: requested 8192, clamped to 2048" in done.out


@pytest.mark.parametrize("solver", ["cp-sat", "auto", "bisect"])
def test_every_solver_gives_the_same_plan(solver: str, problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", problem, "--solver", solver, "--json")
    assert (done.code, done.err) == (0, "")
    plan = Plan.model_validate(json.loads(done.out))
    assert plan.status == "optimal"
    assert plan.proof.solver == solver
    assert plan.blocks == {"kv": 128}
    assert plan.requests[0].capacity == 2048


def test_solve_is_confirmed_by_the_search(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", problem, "--json")
    assert json.loads(done.out)["proof"]["certificate"] == "cp-sat+nested"


def test_infeasible_is_exit_1_with_the_budget(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", problem, "--set", "ranks.r0.quota=256KiB")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("small\ninfeasible")
    assert "OVER by" in done.out
    assert "266_240 B (260.00 KiB)" in done.out, "512 + 4 - 256 KiB"


def test_infeasible_as_json_is_one_document(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", problem, "--set", "ranks.r0.quota=256KiB", "--json")
    assert (done.code, done.err) == (1, "")
    document = json.loads(done.out)
    assert document["status"] == "infeasible"
    assert {"rank": "r0", "phase": "decode", "bytes": 266_240} in document["shortfall"]
    assert document["ranks"][0]["quota"] == 262_144


def test_advise_never_refuses(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", problem, "--set", "ranks.r0.quota=256KiB", "--advise")
    assert done.code == 0
    assert "infeasible" in done.out


def test_set_changes_single_fields_and_may_be_repeated(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(
        capsys,
        *("solve", problem, "--json"),
        *("--set", "ranks.*.quota=2MiB", "--set", "consumers[0].bytes=0"),
    )
    assert json.loads(done.out)["blocks"] == {"kv": 512}


def test_a_problem_may_come_on_standard_input(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(PROBLEM.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run_kvplan(capsys, "solve", "-").code == 0


@pytest.mark.parametrize("deadline", ["0", "0.5", "1e2"])
def test_a_deadline_still_gives_a_plan(deadline: str, problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", problem, "--deadline", deadline, "--json")
    assert done.code == 0
    assert json.loads(done.out)["requests"][0]["capacity"] == 2048


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--solver", "z3"], "--solver: expected cp-sat, auto or bisect, got 'z3'"),
        (["--deadline", "-1"], "--deadline: expected seconds of at least 0, got '-1'"),
        (["--deadline", "nan"], "--deadline: expected seconds of at least 0, got 'nan'"),
        (["--deadline", "inf"], "--deadline: expected seconds of at least 0, got 'inf'"),
        (["--deadline", "soon"], "--deadline: expected seconds of at least 0, got 'soon'"),
        (["--set", "quota"], "--set: expected path=value, got 'quota'"),
        (["--set", "ranks.r9.quota=1"], "ranks.r9"),
        (["--set", "ranks.0.quota=-1"], "ranks[0].quota: expected"),
        (["--fast"], "kvplan: No such option: --fast"),
        (["another.yaml"], "kvplan: Got unexpected extra argument"),
        (["--deadline"], "kvplan: Option '--deadline' requires an argument"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    arguments: list[str], line: str, problem: Path, capsys: Capture
) -> None:
    done = run_kvplan(capsys, "solve", problem, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(line)
    assert done.err.count("\n") == 1


def failing(error: BaseException) -> Any:
    def solve_confirmed(*_: object, **__: object) -> NoReturn:
        raise error

    return solve_confirmed


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SolverError("no point by the deadline"), "kvplan: SolverError: no point by the deadline"),
        (Disagreement("cp-sat 5\nsearch 6"), "kvplan: Disagreement: cp-sat 5 search 6"),
        (OSError(28, "No space left on device"), "kvplan: No space left on device"),
    ],
)
def test_a_failure_of_kvplan_is_one_line_and_exit_3(
    error: Exception,
    line: str,
    problem: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kvplan.solver, "solve_confirmed", failing(error))
    done = run_kvplan(capsys, "solve", problem)
    assert done == (3, "", f"{line}\n")


def test_an_interrupt_is_quiet_and_exit_130(
    problem: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvplan.solver, "solve_confirmed", failing(KeyboardInterrupt()))
    assert run_kvplan(capsys, "solve", problem) == (130, "", "")


def test_a_bug_is_not_dressed_up_as_bad_input(
    problem: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvplan.solver, "solve_confirmed", failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        run_kvplan(capsys, "solve", problem)
