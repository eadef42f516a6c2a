"""A number without a unit where bytes are meant is doubted below 1 MiB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.models.engines.launch import Dialect
from kvplan.models.engines.registry import engine_named
from kvplan.models.engines.settings import read_settings
from kvplan.models.units import bare_bytes_doubt
from support.cli import run_kvplan
from support.shapes import CONFIGS


def notes(engine: str, *arguments: str) -> tuple[str, ...]:
    common: dict[str, Any] = {"gpu": None, "total_bytes": None, "weights_bytes": None}
    adapter = engine_named(engine)
    dialect = getattr(adapter, "DIALECT", Dialect())
    return read_settings(adapter.FLAGS, arguments, common, dialect).notes


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "atom", "llama.cpp"])
def test_ten_bytes_are_doubted(engine: str) -> None:
    expected = "--available: 10 without a unit is 10 bytes, below 1 MiB; is 10GiB meant?"
    assert notes(engine, "--available", "10") == (expected,)


@pytest.mark.parametrize("text", ["0", "10GiB", "10B", "1048576", "1kB"])
def test_what_has_a_unit_or_is_large_is_not(text: str) -> None:
    assert notes("sglang", "--available", text) == ()


def test_a_byte_below_a_mebibyte() -> None:
    assert bare_bytes_doubt("1048575", 2**20 - 1)
    assert bare_bytes_doubt("1048576", 2**20) is None


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--available", "10"], "--available: 10 "),
        (["--total", "80", "--weights-gib", "1"], "--total: 80 "),
    ],
)
def test_a_refusal_shows_the_doubt(
    flags: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Meta-Llama-3.1-8B"]))
    arguments = flags if "--total" in flags else ["--engine", "vllm", *flags]
    done = run_kvplan(capsys, "model", path, *arguments, "--json")
    assert done.code == 0
    document = json.loads(done.out)
    assert document["refused"]
    assert any(line.startswith(named) for line in document["assumed"])
