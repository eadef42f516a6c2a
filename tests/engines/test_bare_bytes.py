"""A number without a unit where bytes are meant is refused below 1 MiB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.command_line.launch_line import Dialect
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import engine_named
from kvplan.models.units import bare_bytes
from support.cli import run_kvplan
from support.shapes import CONFIGS


def notes(engine: str, *arguments: str) -> tuple[str, ...]:
    common: dict[str, Any] = {"gpu": None, "total_bytes": None, "weights_bytes": None}
    adapter = engine_named(engine)
    dialect = getattr(adapter, "DIALECT", Dialect())
    return read_settings(adapter.FLAGS, arguments, common, dialect).notes


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "atom", "llama.cpp"])
def test_ten_bytes_are_refused(engine: str) -> None:
    """They used to be planned, with a remark: the issue rated that as poor."""
    with pytest.raises(InvalidProblem) as raised:
        notes(engine, "--available", "10")
    expected = "expected bytes with a unit, such as 10GiB, got 10, which is 10 bytes without a unit"
    assert str(raised.value) == f"--available: {expected}"


@pytest.mark.parametrize("text", ["0", "10GiB", "10B", "1048576", "1kB"])
def test_what_has_a_unit_or_is_large_is_not(text: str) -> None:
    assert notes("sglang", "--available", text) == ()


def test_a_byte_below_a_mebibyte() -> None:
    assert bare_bytes("1048575", 2**20 - 1)
    assert bare_bytes("1048576", 2**20) is None


def test_a_total_without_a_unit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Meta-Llama-3.1-8B"]))
    done = run_kvplan(capsys, "model", path, "--total", "80", "--weights-gib", "1")
    expected = "expected bytes with a unit, such as 80GiB, got 80, which is 80 bytes without a unit"
    assert done == (2, "", f"--total: {expected}\n")
