"""`kvplan init`: starter files that solve as they are, and nothing is overwritten."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kvplan.models import Problem
from kvplan.models.reading.loader import load_data
from kvplan.solver.cli.init import STARTERS, starter
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]
KINDS = pytest.mark.parametrize("kind", STARTERS)


@KINDS
def test_a_starter_file_solves_and_obeys_the_schema(
    kind: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_kvplan(capsys, "init", "--for", kind, "my server.yaml")
    assert (done.code, done.err) == (0, "")
    assert "kvplan solve 'my server.yaml'" in done.out
    Draft202012Validator(Problem.model_json_schema()).validate(load_data("my server.yaml"))
    solved = run_kvplan(capsys, "solve", "my server.yaml")
    assert solved.code == 0
    assert "\noptimal (" in solved.out


@KINDS
def test_the_commands_in_a_starter_file_work(
    kind: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_kvplan(capsys, "init", "--for", kind, "f.yaml").code == 0
    lines = re.findall(r"^#   kvplan (\w+ f\.yaml.*)$", Path("f.yaml").read_text(), re.MULTILINE)
    assert len(lines) >= (0 if kind == "moe" else 3)
    for line in lines:
        arguments = shlex.split(re.split(r" {3,}", line)[0])
        assert run_kvplan(capsys, *arguments).code in (0, 1), line
        assert run_kvplan(capsys, *arguments).err == "", line


@KINDS
def test_a_starter_file_is_commented_and_names_the_editors_schema(kind: str) -> None:
    text = starter(kind)
    assert text.startswith("# yaml-language-server: $schema=kvplan.schema.json")
    assert text.count("#") > 10
    assert max(map(len, text.splitlines())) <= 110


def test_without_arguments_it_writes_one_file_and_never_twice(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_kvplan(capsys, "init").out.startswith("wrote kvplan.yaml;")
    Path("kvplan.yaml").write_text("mine")
    done = run_kvplan(capsys, "init")
    assert (done.code, done.out) == (2, "")
    assert done.err == "FILE: expected a new file, got 'kvplan.yaml', there already\n"
    assert Path("kvplan.yaml").read_text() == "mine"


def test_a_dash_prints_it(capsys: Capture) -> None:
    assert run_kvplan(capsys, "init", "-", "--for", "vllm").out == starter("vllm")


def test_an_unknown_kind_and_a_folder_that_is_not_there(capsys: Capture, tmp_path: Path) -> None:
    done = run_kvplan(capsys, "init", "--for", "vlm")
    assert (done.code, done.err) == (2, "--for: expected 'vllm', got 'vlm'\n")
    done = run_kvplan(capsys, "init", tmp_path / "no" / "file.yaml")
    assert done.code == 2
    assert "file.yaml: No such file or directory" in done.err
