"""Lint, format and strict types of the whole project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent


def run(*command: str) -> None:
    """Run a tool as a module in the project's root and show what it found."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check")])
def test_ruff(arguments: tuple[str, ...]) -> None:
    run("ruff", *arguments, ".")


def test_mypy_strict() -> None:
    run("mypy", "-p", "kvplan")


def test_the_hooks_before_a_commit_are_local_and_run_what_the_tests_run() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    entries = [hook["entry"] for hook in config["repos"][0]["hooks"]]
    assert [entry.split()[:2] for entry in entries[:2]] == [["ruff", "format"], ["ruff", "check"]]
    assert entries[2:] == ["mypy -p kvplan"]
