"""CONTRIBUTING.md holds: what it names exists, and its example of a new cache kind works."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PARTS = ("face", "kernels", "models", "solver")
MOST_FILES = 7  # of the product, for a new cache kind


def table() -> tuple[list[str], list[list[str]]]:
    """The folder of each column after the first, and the rows."""
    lines = TEXT[TEXT.index("| rule | one home") :].split("\n\n")[0].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    folders = [(re.findall("`(.+)`", cell) or [""])[0] for cell in head[1:]]
    return folders, rows


@cache
def functions(path: Path) -> set[str]:
    """Names of the functions and methods of a file."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def homes() -> Iterator[tuple[str, Path, str | None]]:
    """Rule, file and function of every cell of the table."""
    folders, rows = table()
    for rule, *cells in rows:
        for folder, cell in zip(folders, cells, strict=True):
            for entry in re.findall("`(.+?)`", cell):
                file, _, function = entry.partition(":")
                yield rule, ROOT / folder / f"{file}.py", function or None


def test_every_home_of_a_rule_exists() -> None:
    wrong = [
        f"{rule}: {path.relative_to(ROOT)} {function or ''}"
        for rule, path, function in homes()
        if not path.is_file() or (function and function not in functions(path))
    ]
    assert wrong == []
    assert len(table()[1]) >= 20


def test_every_rule_has_a_home_an_oracle_and_a_test() -> None:
    for rule, home, *_, oracle, tests in table()[1]:
        assert "-" not in (home, oracle, tests), rule


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"`((?:models|kernels|solver|tests|\.ci)/[\w/]*(?:/|\.py|run))`", TEXT)
    assert len(named) > 20
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


def test_names_in_the_walk_exist() -> None:
    walk = TEXT[TEXT.index("## How a problem") : TEXT.index("## Where a rule")]
    for path, name in re.findall(r"`([\w/]+\.py)`: `(?:\w+\.)?(\w+)`", walk):
        assert name == "model_validate" or re.search(
            rf"(def|class) {name}\b", (ROOT / path).read_text()
        ), path


def patch() -> str:
    return TEXT.split("```diff\n")[1].split("```")[0]


def copied(folder: Path) -> None:
    """The folders under one package, through links as in .typing, with the patch applied."""
    for part in PARTS:
        shutil.copytree(
            ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "data")
        )
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / ".typing", folder / ".typing", symlinks=True, ignore=ignored)
    command = ["git", "apply", "--unidiff-zero", "--whitespace=error", "-"]
    done = subprocess.run(
        command, cwd=folder, input=patch(), text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


PLANS = """
import sys
from kvplan.models import Infeasible, Problem
from kvplan.solver import oracle, plan
assert sys.modules["kvplan.models"].__file__.startswith(sys.argv[1])
for head in (1, 15, 16, 17, 40, 1000):
    for fit in ("none", "capacity"):
        problem = Problem.model_validate({
            "ranks": [{"name": "r", "quota": 60}],
            "tokens_per_block": 4,
            "pools": [{"name": "p", "bytes": 1}],
            "caches": [{"name": "h", "kind": "head", "head": head}, {"name": "f", "kind": "full"}],
            "batches": [{"name": "b", "requests": [{"name": "q", "capacity": 110, "fit": fit}]}],
            "fill": "none",
        })
        best = oracle.best(problem)
        for solver in ("auto", "cp-sat", "bisect"):
            try:
                answer = plan(problem, solver=solver, replay=True)
            except Infeasible as error:
                assert best is None, (head, fit, solver, error)
                continue
            assert dict(answer.blocks) == dict(best.blocks), (head, fit, solver)
print("planned")
"""


def test_the_example_of_a_new_cache_kind_works(tmp_path: Path) -> None:
    assert patch().count("\n+++ ") <= MOST_FILES
    copied(tmp_path)
    command = [sys.executable, "-c", PLANS, str(tmp_path)]
    environment = {"PYTHONPATH": str(tmp_path / ".typing"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False
    )
    assert done.stdout == "planned\n", done.stderr


@pytest.mark.parametrize("file", ["solver/check/needs.py", "solver/oracle/blocks.py"])
def test_the_example_states_the_rule_in_independent_homes(file: str) -> None:
    assert f"+++ b/{file}" in patch()
