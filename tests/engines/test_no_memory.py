"""A launch without memory for its cache: by how much it misses, and what starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import run_kvplan
from support.vllm_server import CONFIGS


def answer(
    capsys: pytest.CaptureFixture[str], folder: Path, line: str, weights_gib: str
) -> dict[str, Any]:
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIGS["Qwen3-8B"]))
    words = ["--gpu", "L4", "--weights-gib", weights_gib, "--json", *line.split()]
    done = run_kvplan(capsys, "model", path, *words)
    assert done.code == 0
    document: dict[str, Any] = json.loads(done.out)
    return document


LINES = {
    "--engine vllm --max-model-len 4096": ("--tensor-parallel-size", "fp8 weights"),
    "--engine sglang": ("--tp-size", "fp8 weights"),
}


@pytest.mark.parametrize("line", LINES)
def test_the_least_settings_start_and_no_lesser_ones(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flag, lighter = LINES[line]
    refused = answer(capsys, tmp_path, line, "21.5")
    figures = refused["figures"]
    assert refused["refused"]
    assert figures["falls short by"].endswith("before any block")
    assert figures[f"smallest {flag} that starts"] == "2"
    assert figures["weights that start"] == f"{lighter}, --weights-gib 10.75"
    assert not answer(capsys, tmp_path, f"{line} {flag} 2", "10.75")["refused"]
    assert not answer(capsys, tmp_path, line, "10.75")["refused"]
    assert not any("utilization" in name or "fraction" in name for name in figures)


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("--engine vllm --max-model-len 512 --enforce-eager", "--gpu-memory-utilization"),
        ("--engine sglang", "--mem-fraction-static"),
    ],
)
def test_the_least_share_starts_and_a_hundredth_less_does_not(
    line: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = answer(capsys, tmp_path, f"{line} {flag} 0.6", "15.3")
    share = refused["figures"][f"smallest {flag} that starts"]
    assert not answer(capsys, tmp_path, f"{line} {flag} {share}", "15.3")["refused"]
    less = f"{float(share) - 0.01:.2f}"
    assert answer(capsys, tmp_path, f"{line} {flag} {less}", "15.3")["refused"]


def test_nothing_that_starts_is_said_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = answer(capsys, tmp_path, "--engine vllm", "2000")["figures"]
    assert figures["starts with"].startswith("none of a larger share, up to 16 ranks")


def test_bytes_that_were_measured_have_no_such_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = answer(capsys, tmp_path, "--engine vllm --available 1GiB", "15.3")["figures"]
    assert "falls short by" not in figures
