"""Remedies of a failed start that its own figures allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import run_kvplan
from support.logs import write

Capture = pytest.CaptureFixture[str]
TAG = "(EngineCore pid=1)"
VERSION = f"{TAG} INFO Initializing a V1 LLM engine (v0.19.0) with config: model='x'"
OOM = (
    f"{TAG} torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
    "total capacity of 23.53 GiB of which 1.00 GiB is free. Process 123 has {} in use. "
    "Including non-PyTorch memory, this process has 8.53 GiB memory in use."
)
WARM_UP = (
    f"{TAG} RuntimeError: CUDA out of memory occurred when warming up sampler with 512 dummy "
    "requests."
)


def failed(capsys: Capture, folder: Path, *lines: str) -> list[dict[str, Any]]:
    log = write(folder, [VERSION, *lines])
    (start,) = json.loads(run_kvplan(capsys, "check-log", "--json", log).out)
    return list(start["failed"])


@pytest.mark.parametrize(
    ("left", "estimate", "remedy"),
    [
        ("7.25", 59392, "--kv-cache-dtype fp8 with --max-model-len 118784"),
        ("8.00", 65536, "--kv-cache-dtype fp8"),
        ("7.25", None, None),
    ],
)
def test_half_the_bytes_must_fit(
    left: str, estimate: int | None, remedy: str | None, capsys: Capture, tmp_path: Path
) -> None:
    line = (
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({left} GiB)."
    )
    if estimate:
        line += f" Based on it, the estimated maximum model length is {estimate}."
    (one,) = failed(capsys, tmp_path, line)
    assert [r for r in one["remedies"] if "fp8" in r] == ([remedy] if remedy else [])


def test_the_step_that_ran_out_decides(capsys: Capture, tmp_path: Path) -> None:
    lines = (OOM.format("15.00 GiB memory"), WARM_UP)
    assert [one["kind"] for one in failed(capsys, tmp_path, *lines)] == ["warm-up"]
    both = [one["kind"] for one in failed(capsys, tmp_path, *reversed(lines))]
    assert both == ["warm-up", "out of memory"]


@pytest.mark.parametrize(("held", "is_named"), [("15.00 GiB", True), ("516.00 MiB", False)])
def test_a_process_that_holds_the_card_comes_first(
    held: str, is_named: bool, capsys: Capture, tmp_path: Path
) -> None:
    (one,) = failed(capsys, tmp_path, OOM.format(f"{held} memory"))
    named = [f"end process 123, which holds {held}", "--gpu-memory-utilization lower"]
    assert (one["remedies"][:2] == named) is is_named
