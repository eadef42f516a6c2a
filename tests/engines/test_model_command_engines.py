"""kvplan model for SGLang, ATOM, TensorRT-LLM and llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import ENGINES, engine_named
from kvplan.solver import oracle, plan
from support.cli import run_kvplan
from support.shapes import CONFIGS

BUDGET = ("--available", "60GiB")
FLAGS: dict[str, tuple[str, ...]] = {
    "sglang": ("--page-size", "128"),
    "atom": ("--max-num-seqs", "16"),
    "tensorrt-llm": ("--max_seq_len", "8192"),
    "llama.cpp": ("--ctx-size", "16384"),
}
REFUSED = {
    "tensorrt-llm": {
        "DeepSeek-V4-Flash": "without compressed layers",
        "DeepSeek-V4-Pro": "without compressed layers",
        **dict.fromkeys(
            ("gemma-2-2b-it", "Kimi-VL-A3B-Instruct", "LFM2-1.2B", "Jamba-v0.1", "gpt2"),
            "a class that TensorRT-LLM serves",
        ),
        "MiniMax-Text-01": "a class that TensorRT-LLM serves",
    },
    "sglang": dict.fromkeys(("Jamba-v0.1", "MiniMax-Text-01"), "a class that SGLang 0.5.23 serves"),
    "llama.cpp": {"MiniMax-Text-01": "llama.cpp's own list"},
    "atom": dict.fromkeys(
        (
            *("Llama-3_3-Nemotron-Super-49B-v1", "Llama-4-Maverick-17B-128E-Instruct"),
            *("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"),
            *("NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "Qwen2.5-7B-Instruct"),
            *("Qwen2.5-72B-Instruct", "Qwen1.5-MoE-A2.7B", "gemma-2-2b-it", "gemma-3-4b-it"),
            *("gemma-3-12b-it", "gemma-3-27b-it", "granite-3.1-2b-instruct", "phi-4", "gpt2"),
            *("granite-3.3-8b-instruct", "Llama-4-Scout-17B-16E-Instruct", "LFM2-1.2B"),
            *("Kimi-VL-A3B-Instruct", "Jamba-v0.1", "granite-4.0-h-small", "MiniMax-Text-01"),
        ),
        "a class that ATOM serves",
    ),
}
"""Models that an engine does not know, and how it says so."""


def config(folder: Path, model: str) -> Path:
    """The config of a model as a file."""
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIGS[model]), encoding="utf-8")
    return path


@pytest.mark.parametrize("engine", FLAGS)
@pytest.mark.parametrize("model", CONFIGS)
def test_each_model_has_a_valid_problem_or_a_reason(engine: str, model: str) -> None:
    adapter, known = engine_named(engine), read_architecture(CONFIGS[model])
    settings = read_settings(adapter.FLAGS, (*BUDGET, *FLAGS[engine]), {})
    reason = REFUSED.get(engine, {}).get(model)
    if reason is not None:
        with pytest.raises(InvalidProblem, match=reason):
            adapter.build(known, settings)
        return
    problem = adapter.build(known, settings)
    answer = plan(problem)
    assert list(oracle.check(problem, answer)) == []
    assert adapter.figures(known, settings, problem, answer)


@pytest.mark.parametrize("engine", FLAGS)
def test_the_printed_problem_has_the_printed_plan(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, "Qwen3.5-27B")
    done = run_kvplan(capsys, "model", path, "--engine", engine, *BUDGET, *FLAGS[engine])
    assert (done.code, done.err) == (0, "")
    adapter, known = engine_named(engine), read_architecture(CONFIGS["Qwen3.5-27B"])
    settings = read_settings(adapter.FLAGS, (*BUDGET, *FLAGS[engine]), {})
    answer = plan(Problem.parse(done.out))
    assert answer.blocks == plan(adapter.build(known, settings)).blocks
    for label, value in adapter.figures(
        known, settings, adapter.build(known, settings), answer
    ).items():
        assert f"#   {label}: {value}\n" in done.out


@pytest.mark.parametrize("engine", FLAGS)
def test_flags_are_listed(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, "Qwen3-8B")
    done = run_kvplan(capsys, "model", path, "--engine", engine, "--flags")
    names = [line.split()[0] for line in done.out.splitlines()]
    assert names == [flag.name for flag in engine_named(engine).FLAGS]
    assert set(FLAGS[engine][::2]) <= set(names)


@pytest.mark.parametrize(
    ("engine", "flag"),
    [("sglang", "--mamba-full-memory-ratio"), ("atom", "--max-num-seqs")],
)
def test_advice_says_what_to_set(
    engine: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, "Qwen3.5-27B")
    arguments = ("--optimize", "--mean-tokens", "16384", "--available", "40GiB")
    done = run_kvplan(capsys, "model", path, "--engine", engine, *arguments)
    (line,) = [line for line in done.out.splitlines() if line.startswith("# set: ")]
    assert flag in line
    pasted = line.removeprefix("# set: ").split()
    again = run_kvplan(capsys, "model", path, "--engine", engine, *arguments, *pasted)
    assert "# set: nothing" in again.out
    count = done.out.split(" after; no setting holds more than ")[1].split("\n")[0]
    assert f"{count} before, {count} after" in again.out


@pytest.mark.parametrize(("figure", "code"), [("345292", 0), ("345291", 1)])
def test_a_log_line_is_compared(
    figure: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"KV Cache is allocated. #tokens: {figure}, K size: 10.54 GB, V size: 10.54 GB"
    path = config(tmp_path, "Qwen3.5-27B")
    engine = ("--engine", "sglang", "--available", "40GiB")
    assert run_kvplan(capsys, "model", path, *engine, "--check", line).code == code


def test_every_engine_is_at_hand() -> None:
    for name in ENGINES:
        adapter = engine_named(name)
        assert {flag.kind for flag in adapter.FLAGS} <= {
            "count",
            "number",
            "bytes",
            "word",
            "switch",
        }
        assert callable(adapter.build)
        assert callable(adapter.figures)
