"""The README keeps its word: its problem, command, output, Python example and reference."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.main import get_command

from kvplan.models import Problem
from kvplan.solver.cli.app import app
from support.cli import run_kvplan

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(match[1], match[2]) for match in BLOCK.finditer(README.read_text(encoding="utf-8"))]


def block(language: str, index: int = 0) -> str:
    return [text for kind, text in BLOCKS if kind == language][index]


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's problem, as the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "card.yaml"
    path.write_text(block("yaml"))
    return path


def test_the_first_problem_has_ten_lines_at_most() -> None:
    assert len(block("yaml").splitlines()) <= 10


@pytest.mark.parametrize("index", [0, 1])
def test_the_command_prints_what_the_readme_shows(
    index: int, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, output = block("console", index).partition("\n")
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "kvplan"
    done = run_kvplan(capsys, *arguments)
    assert (done.code, done.err) == (0, "")
    assert done.out == output


EXPLAINED = [text for kind, text in BLOCKS if kind == "console" and "kvplan explain" in text]


@pytest.mark.parametrize("text", EXPLAINED)
def test_the_explanations_print_what_the_readme_quotes(
    text: str, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every quoted line, in order; ... stands for what is left out."""
    command, *quoted = text.splitlines()
    done = run_kvplan(capsys, *shlex.split(command)[2:])
    assert done.err == ""
    printed = iter(done.out.splitlines())
    assert [line for line in quoted if line != "..." and line not in printed] == []


def test_a_plan_and_a_refusal_are_explained() -> None:
    assert len(EXPLAINED) == 2


@pytest.mark.parametrize("index", [0, 1, 2])
def test_the_python_example_prints_what_the_readme_shows(index: int, card: Path) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block("python", index), "README.md", "exec"), {})
    assert printed.getvalue() == block("text", index)


def models_of(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and every model in its fields."""
    yield model
    for field in model.model_fields.values():
        yield from _models_in(field.annotation)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from models_of(annotation)
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)


def test_the_reference_is_a_valid_problem_that_shows_every_field() -> None:
    text = block("yaml", 1)
    Problem.parse(text)
    fields = {name for model in models_of(Problem) for name in model.model_fields}
    assert len(fields) > 60
    absent = {name for name in fields if not re.search(rf"\b{name}:|\b{name} \(", text)}
    assert absent == {"none"}, "fill: none is a word, not a key"
    assert re.search(r"\bor none\b", text)


def test_the_reference_problem_has_a_plan_that_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan = tmp_path / "problem.yaml", tmp_path / "plan.json"
    problem.write_text(block("yaml", 1))
    done = run_kvplan(capsys, "solve", problem, "--json")
    assert done.code == 0
    plan.write_text(done.out)
    assert run_kvplan(capsys, "verify", problem, plan).code == 0


def test_every_command_and_option_is_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert len(commands) == 8
    for name, command in commands.items():
        assert f"| `kvplan {name}" in text
        options = [opt for param in command.params for opt in param.opts if opt.startswith("--")]
        assert [option for option in options if f"`{option}" not in text] == []
