"""kvplan verify: a plan that holds, one that was tampered with, and what is no plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import run_kvplan, spawn

Capture = pytest.CaptureFixture[str]

PROBLEM = """\
ranks: [{name: r0, quota: 1MiB}]
pools: [{name: kv, bytes: 4KiB}]
caches: [{name: full, kind: full}]
batches: [{name: one, requests: [{name: long, capacity: 8192, fit: capacity}]}]
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.yaml"
    path.write_text(PROBLEM)
    return path


@pytest.fixture
def plan(problem: Path, capsys: Capture) -> dict[str, Any]:
    done = run_kvplan(capsys, "solve", problem, "--json")
    assert done.code == 0
    document: dict[str, Any] = json.loads(done.out)
    return document


def written(folder: Path, document: Any) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return path


def test_a_plan_holds(problem: Path, plan: dict[str, Any], capsys: Capture) -> None:
    done = run_kvplan(capsys, "verify", problem, written(problem.parent, plan))
    assert done == (0, "every rule holds\n", "")


def test_too_many_blocks_are_found(problem: Path, plan: dict[str, Any], capsys: Capture) -> None:
    plan["blocks"]["kv"] += 1
    done = run_kvplan(capsys, "verify", problem, written(problem.parent, plan))
    assert (done.code, done.err) == (1, "")
    *lines, last = done.out.splitlines()
    assert any("r0" in line for line in lines)
    assert last == f"{len(lines)} violated"


def test_too_few_blocks_are_found(problem: Path, plan: dict[str, Any], capsys: Capture) -> None:
    plan["blocks"]["kv"] = 1
    done = run_kvplan(capsys, "verify", problem, written(problem.parent, plan))
    assert done.code == 1
    assert "kv" in done.out


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": {}},
        {"blocks": {"kv": 256, "other": 1}},
        {"blocks": {"kv": -1}},
        {"requests": []},
        {"ranks": []},
        {"prefill_chunk": 4096},
        {"expert_slots": 3},
        {"choices": {"x": "y"}},
        {"copies": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_plan_for_another_problem_is_found(
    change: dict[str, Any], problem: Path, plan: dict[str, Any], capsys: Capture
) -> None:
    done = run_kvplan(capsys, "verify", problem, written(problem.parent, {**plan, **change}))
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[-1].endswith(" violated")


def test_a_plan_is_held_against_the_overridden_problem(
    problem: Path, plan: dict[str, Any], capsys: Capture
) -> None:
    path = written(problem.parent, plan)
    done = run_kvplan(capsys, "verify", problem, path, "--set", "ranks.r0.quota=512KiB")
    assert done.code == 1


def test_a_plan_that_answers_another_question_is_noted(
    problem: Path, plan: dict[str, Any], capsys: Capture
) -> None:
    path = written(problem.parent, plan)
    done = run_kvplan(capsys, "verify", problem, path, "--set", "ranks.r0.name=another")
    assert done.out.startswith("question: the plan answers another problem than this one; verify")
    path = written(problem.parent, {**plan, "question": ""})
    done = run_kvplan(capsys, "verify", problem, path, "--set", "ranks.r0.name=another")
    assert "question: " not in done.out


def test_a_plan_may_come_on_standard_input(problem: Path, plan: dict[str, Any]) -> None:
    done = spawn("verify", problem, "-", text=json.dumps(plan))
    assert done == (0, "every rule holds\n", "")


def test_only_one_of_the_two_may_be_standard_input(capsys: Capture) -> None:
    done = run_kvplan(capsys, "verify", "-", "-")
    assert done == (2, "", "PLAN: expected a file where FILE is standard input, got - for both\n")


def test_what_is_no_plan_is_bad_input(problem: Path, plan: dict[str, Any], capsys: Capture) -> None:
    path = problem.parent / "plan.json"
    for document, line in (
        ([], f"{path}: expected a mapping, got []"),
        (
            {**plan, "status": "done"},
            f"{path}: status: expected 'optimal' or 'feasible', got 'done'",
        ),
        ({**plan, "extra": 1}, f"{path}: extra: expected"),
        ({**plan, "blocks": {"kv": "x"}}, f"{path}: blocks.kv: expected"),
    ):
        done = run_kvplan(capsys, "verify", problem, written(problem.parent, document))
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(line)
        assert done.err.count("\n") == 1


def test_a_refusal_is_no_plan(problem: Path, capsys: Capture) -> None:
    refused = run_kvplan(capsys, "solve", problem, "--set", "ranks.r0.quota=1", "--json")
    path = problem.parent / "plan.json"
    path.write_text(refused.out)
    done = run_kvplan(capsys, "verify", problem, path)
    assert (refused.code, done.code, done.out) == (1, 2, "")
    assert done.err == f"{path}: expected a plan, got a refusal: nothing fitted\n"


def test_a_problem_is_no_plan(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "verify", problem, problem)
    expected = "expected a plan, as solve --json prints it, got a problem"
    assert (done.code, done.err) == (2, f"{problem}: {expected}\n")
    path = problem.parent / "plan.json"
    path.write_text("{}")
    done = run_kvplan(capsys, "verify", problem, path)
    expected = "expected a plan, as solve --json prints it, got another mapping"
    assert (done.code, done.err) == (2, f"{path}: {expected}\n")


def test_a_plan_that_is_not_there(problem: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "verify", problem, "nowhere.json")
    assert done == (
        2,
        "",
        "nowhere.json: expected a readable file, got no such file\n",
    )
