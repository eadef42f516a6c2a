"""Help, version, schema and demo; and what only a process of its own can show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.solver.cli import main
from support.cli import run_kvplan, spawn

Capture = pytest.CaptureFixture[str]
COMMANDS = (
    "solve",
    "explain",
    "verify",
    "explore",
    "model",
    "layout",
    "check-log",
    "schema",
    "demo",
)


def test_the_entry_point_is_main() -> None:
    (entry,) = entry_points(group="console_scripts", name="kvplan")
    assert entry.load() is main


def test_help_lists_the_commands_and_the_exit_codes(capsys: Capture) -> None:
    done = run_kvplan(capsys, "--help")
    assert (done.code, done.err) == (0, "")
    assert all(f"\n  {command} " in done.out for command in COMMANDS)
    for code in ("0    a plan", "1    infeasible", "2    bad input", "3    kvplan itself failed"):
        assert code in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str, capsys: Capture) -> None:
    done = run_kvplan(capsys, command, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"Example:\n    kvplan {'solve' if command == 'verify' else command}" in done.out


def test_without_a_command_the_help_goes_to_standard_error(capsys: Capture) -> None:
    done = run_kvplan(capsys)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: kvplan")


def test_an_unknown_command_is_one_line(capsys: Capture) -> None:
    done = run_kvplan(capsys, "solv")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("kvplan: No such command 'solv'.")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "at", "found"), [("kvplan so", 1, "solve"), ("kvplan solve --so", 2, "--solver")]
)
def test_a_shell_completes_commands_and_options(words: str, at: int, found: str) -> None:
    asked = {"_KVPLAN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    assert spawn(environment={**os.environ, **asked}).out.split() == [found]


def test_version(capsys: Capture) -> None:
    assert run_kvplan(capsys, "--version") == (0, f"kvplan {version('kvplan')}\n", "")


def test_schema_describes_every_field(capsys: Capture) -> None:
    done = run_kvplan(capsys, "schema")
    assert (done.code, done.err) == (0, "")
    schema: dict[str, Any] = json.loads(done.out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["properties"]) == set(Problem.model_fields)
    models = [schema, *schema["$defs"].values()]
    fields = {name: f for model in models for name, f in model.get("properties", {}).items()}
    assert len(fields) > 60
    assert [name for name, field in fields.items() if "description" not in field] == []


def test_demo_works_from_any_folder(tmp_path: Path) -> None:
    done = spawn("demo", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "Niko1221/Strata #765" in done.out
    assert "\noptimal (solver cp-sat): every goal proven" in done.out
    assert "capacity:long  524_288  524_288" in done.out
    assert "\nbudget of gpu\n" in done.out
    assert list(tmp_path.iterdir()) == []


def test_what_demo_names_can_be_solved_and_shows_the_trade(capsys: Capture) -> None:
    done = run_kvplan(capsys, "demo")
    lines = [line.split() for line in done.out.splitlines() if line.startswith("  kvplan solve")]
    assert len(lines) == 3
    answers = [run_kvplan(capsys, *line[1:]) for line in lines]
    assert [answer.code for answer in answers] == [0, 1, 0]
    assert "note: prefill: requested 24576, clamped to" in answers[0].out
    assert json.loads(answers[2].out)["prefill_chunk"] == 24_576


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["solve", "--help"], ["schema"]])
def test_light_commands_load_no_solver(arguments: list[str]) -> None:
    heavy = ("ortools", "pandas", "torch", "triton", "numpy", "rich")
    code = (
        "import sys\nfrom kvplan.solver.cli import run\n"
        f"assert run({arguments!r}) == 0\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of a shell")
@pytest.mark.parametrize("command", ["schema", "demo", "solve --help"])
def test_a_closed_pipe_is_no_error(command: str) -> None:
    line = f"{sys.executable} -m kvplan.solver.cli {command} | head -c 20"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert (len(done.stdout), done.stderr) == (20, "")


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors of a shell")
def test_closed_streams_are_no_traceback() -> None:
    line = f"{sys.executable} -m kvplan.solver.cli solve - <&- >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "standard input: expected a mapping, got null\n"


def test_any_name_survives_a_terminal_of_ascii(tmp_path: Path) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(
        "ranks: [{name: r0, quota: 1MiB}]\nconsumers: [{name: 权重, bytes: 1}]\n", encoding="utf-8"
    )
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = spawn("solve", path, environment=ascii_only)
    assert (done.code, done.err) == (0, "")
    assert "\\u6743\\u91cd" in done.out
    done = spawn("solve", path, "--json", environment=ascii_only)
    assert json.loads(done.out)["ranks"][0]["ledger"][-1]["consumer"] == "权重"


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_terminal_gets_bars_and_a_pipe_does_not(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "kvplan.solver.cli", "demo"]
    environment = {**os.environ, "COLUMNS": "160", "TERM": "xterm", "PYTHONUTF8": "1"}
    with subprocess.Popen(command, stdout=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65_536)
            except OSError:  # the other end was closed
                break
            if not part:
                break
            shown += part
        assert process.wait(60) == 0
    os.close(leader)
    text = shown.decode()
    assert "█" in text
    assert "\x1b[" in text
    piped = spawn("demo", environment=environment)
    assert "█" not in piped.out
    assert "\x1b[" not in piped.out
