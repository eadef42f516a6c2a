"""Logs of one kind each: the count, what failed, what to change, and the problem described."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.solver.logs.reading.scan import scan
from kvplan.solver.logs.verdict import Start
from support.cli import run_kvplan
from support.logs import write

Capture = pytest.CaptureFixture[str]
FILE = Path(__file__).parent / "log_variants.yaml"
LOGS: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["logs"]
NAMES = [log["name"] for log in LOGS]


def told(start: Start) -> dict[str, Any]:
    """What a start comes to, as the table has it."""
    found = {
        "engine": start.engine,
        "ranks": len(start.shares),
        "count": start.agreed,
        "failures": [f"{one.kind}: {'; '.join(one.remedies)}" for one in start.failures],
        "notes": list(start.remarks),
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def test_there_are_forty_of_them() -> None:
    assert len(set(NAMES)) == len(LOGS) >= 40
    assert {start["engine"] for log in LOGS for start in log["starts"]} >= {
        *("vLLM", "SGLang", "llama.cpp", "TensorRT-LLM", "ATOM", "ollama", "LMDeploy"),
    }


@pytest.mark.parametrize("log", LOGS, ids=NAMES)
def test_what_a_log_comes_to(log: dict[str, Any], capsys: Capture, tmp_path: Path) -> None:
    path = write(tmp_path, log["lines"])
    assert [told(start) for start in scan([str(path)])] == log["starts"]
    assert run_kvplan(capsys, "check-log", path).code == log["code"]
    assert run_kvplan(capsys, "check-log", "--diff", path, path).code == 0


@pytest.mark.parametrize("log", LOGS, ids=NAMES)
def test_the_problem_that_a_log_describes(
    log: dict[str, Any], capsys: Capture, tmp_path: Path
) -> None:
    done = run_kvplan(capsys, "model", "--from-log", write(tmp_path, log["lines"]))
    if "described" not in log:
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "expected a count, and the bytes that it takes or may take" in done.err
        return
    assert (done.code, done.err) == (0, "")
    path = tmp_path / "problem.yaml"
    path.write_text(done.out)
    solved = run_kvplan(capsys, "solve", path, "--json")
    assert solved.code == log["described"]["code"]
    assert json.loads(solved.out).get("blocks") == log["described"].get("blocks")
