"""Public start-ups: every true line of a log passes --check, every altered figure fails it."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cli import run_kvplan
from support.vllm_server import CONFIGS

Capture = pytest.CaptureFixture[str]
FILE = Path(__file__).with_name("start_ups.yaml")
START_UPS: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["start_ups"]
FIGURE = re.compile(r"«(-?[\d.,]+)»")
NAMES = [one["source"] for one in START_UPS]


def checked(capsys: Capture, folder: Path, start: dict[str, Any], line: str) -> tuple[int, str]:
    config = start["config"]
    path = folder / "config.json"
    known = CONFIGS[config] if isinstance(config, str) else config
    path.write_text(json.dumps(known), encoding="utf-8")
    flags = shlex.split(start["flags"])
    done = run_kvplan(capsys, "model", path, *flags, "--check", re.sub("[«»]", "", line))
    return done.code, done.err


def altered(text: str, factor: float) -> str:
    """A figure printed as before, by more than its rounding and the readings' away from it."""
    decimals = len(text.partition(".")[2])
    value = float(text.replace(",", ""))
    new = value * factor + (0.05 if decimals and factor > 1 else 0)
    if f"{new:.{decimals}f}" == f"{value:.{decimals}f}":
        new += 1
    return f"{new:,.{decimals}f}" if "," in text else f"{new:.{decimals}f}"


def numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)]


def test_the_table_has_every_engine() -> None:
    engines = Counter(
        re.findall(r"--engine (\S+)", start["flags"])[0].split("-")[0] for start in START_UPS
    )
    assert engines == {"vllm": 19, "sglang": 7, "llama.cpp": 7, "tensorrt": 2, "atom": 4}
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("number", range(len(START_UPS)), ids=NAMES)
def test_a_true_line_passes(number: int, capsys: Capture, tmp_path: Path) -> None:
    start = START_UPS[number]
    for line in start["lines"]:
        assert FIGURE.search(line)
        assert checked(capsys, tmp_path, start, line) == (0, ""), line


@pytest.mark.parametrize("number", range(len(START_UPS)), ids=NAMES)
def test_an_altered_figure_is_named(number: int, capsys: Capture, tmp_path: Path) -> None:
    start = START_UPS[number]
    for line in start["lines"]:
        for place, match in enumerate(FIGURE.finditer(line)):
            new = altered(match[1], (1.3, 0.7)[(place + number) % 2])
            changed = line[: match.start()] + new + line[match.end() :]
            code, said = checked(capsys, tmp_path, start, changed)
            assert (code, said.count("\n")) == (1, 1), changed
            assert "the log says" in said
            _, _, told = said.partition("the log says ")
            logged, _, _ = told.partition(", the plan")
            assert float(new.replace(",", "")) in numbers(logged), (said, changed)
