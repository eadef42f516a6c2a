"""The entry points that engines load: they resolve, and cost nothing where KVPLAN is off."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
POINTS = {group: entries["kvplan"] for group, entries in PROJECT["entry-points"].items()}
HEAVY = ("numpy", "ortools", "pydantic", "pydantic_core", "sglang", "torch", "vllm", "yaml")


def test_both_engines_have_one() -> None:
    assert sorted(POINTS) == ["sglang.srt.plugins", "vllm.general_plugins"]
    assert not any("vllm" in name or "sglang" in name for name in PROJECT["dependencies"])


@pytest.mark.parametrize("group", POINTS)
def test_it_imports_nothing_where_kvplan_is_off(group: str, tmp_path: Path) -> None:
    module, _, function = POINTS[group].partition(":")
    code = (
        f"import sys, {module} as plug\nplug.{function}()\nplug.{function}()\n"
        f"print([name for name in sys.modules if name.split('.')[0] in {HEAVY}])"
    )
    command = [sys.executable, "-I", "-W", "error", "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
