"""kvplan model: a config in; a problem, the engine's figures and better settings out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.models import Problem
from kvplan.solver import plan
from kvplan.solver.cli.model.model_text import check_lines
from support.cli import Outcome, run_kvplan
from support.vllm_server import CONFIGS

HYBRID = "--tensor-parallel-size 2 --kv-cache-dtype fp8 --max-model-len 131072 --available 4.99GiB"
ALIGN = f"--engine vllm --engine-version 0.24.0 --mamba-cache-mode align {HYBRID}"


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of configs, as the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, config in CONFIGS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], line: str, *more: str) -> Outcome:
    return run_kvplan(capsys, "model", *line.split(), *more)


def test_it_prints_a_problem_that_solves(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, f"Qwen3.6-27B-NVFP4.json {ALIGN}")
    assert (done.code, done.err) == (0, "")
    assert "#   GPU KV cache size: 302,921 tokens\n" in done.out
    answer = plan(Problem.parse(done.out))
    assert (answer.blocks, answer.floors) == ({"paged": 208}, {"paged": 90})


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("GPU KV cache size: 302,921 tokens", 0),
        ("INFO 08-02 [kv_cache_utils.py:1733] GPU KV cache size:  302,921 tokens", 0),
        ("Maximum concurrency for 131,072 tokens per request: 2.31x", 0),
        ("num_gpu_blocks: 208", 0),
        ("GPU KV cache size: 302,922 tokens", 1),
        ("Maximum concurrency for 131,072 tokens per request: 2.3x", 1),
        ("GPU KV cache: 1", 2),
        ("GPU KV cache size:", 2),
    ],
)
def test_a_log_line_is_compared(
    configs: Path, capsys: pytest.CaptureFixture[str], line: str, code: int
) -> None:
    done = run(capsys, f"Qwen3.6-27B-NVFP4.json {ALIGN}", "--check", line)
    assert done.code == code
    assert bool(done.err) is bool(code)


def test_every_line_that_differs_is_named(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ("--check", "GPU KV cache size: 1 tokens", "--check", "num_gpu_blocks: 209")
    done = run(capsys, f"Qwen3.6-27B-NVFP4.json {ALIGN}", *wrong)
    assert done.code == 1
    assert done.err.splitlines() == [
        "GPU KV cache size: the log says 1 tokens, the plan 302,921 tokens",
        "num_gpu_blocks: the log says 209, the plan 208",
    ]


def test_a_refused_start_says_what_the_engine_says(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--engine-version 0.19.0 --dtype bfloat16 --max-num-batched-tokens 1024"
    done = run(capsys, f"gpt-oss-120b.json --engine vllm {flags} --available 1.71GiB")
    assert done.code == 0
    assert "# the engine refuses to start\n" in done.out
    assert "#   the estimated maximum model length is: 48624\n" in done.out
    Problem.parse(done.out)


def test_a_card_and_weights_give_a_budget_whose_estimates_are_named(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "Meta-Llama-3.1-8B.json --gpu h100 --weights-gib 14.99 --max-model-len 8192")
    assert done.code == 0
    asked = Problem.parse(done.out)
    said = asked.name.partition("; estimated: ")[2]
    terms = ("total", "activation", "non-torch", "graphs")
    assert [said.index(f"{term} (") for term in terms] == sorted(said.index(t) for t in terms)
    assert said.count(" GiB to ") + said.count(" MiB to ") == 4
    sources = {line.consumer: line.bytes for line in plan(asked).ranks[0].ledger}
    assert any("activation (estimated)" in consumer for consumer in sources)


def test_optimize_prints_flags_and_a_table(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--dtype bfloat16 --max-model-len 32768 --available 6GiB"
    done = run(capsys, f"gpt-oss-120b.json --optimize --mean-tokens 32768 {flags}")
    assert done.code == 0
    table = [line for line in done.out.splitlines() if line.startswith("# ")]
    assert any(line.startswith("# set: --") for line in table)
    assert any("before  after" in line for line in table)
    assert any(line.startswith("# not counted: prefix reuse") for line in table)
    Problem.parse(done.out)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("Meta-Llama-3.1-8B.json --engine vlm", "--engine: expected 'vllm'"),
        ("Meta-Llama-3.1-8B.json --blok 1", "--blok: expected a flag of this engine"),
        ("Meta-Llama-3.1-8B.json --gpu abacus", "--gpu: expected one of"),
        (
            "Meta-Llama-3.1-8B.json --weights-gib x",
            "--weights-gib: expected a number of GiB",
        ),
        (
            "Meta-Llama-3.1-8B.json --available 9GiB --mean-tokens 5",
            "--mean-tokens: expected --optimize beside it",
        ),
        (
            "Meta-Llama-3.1-8B.json --available 9GiB --optimize --mean-tokens 0",
            "--mean-tokens: expected tokens of at least 1, got 0",
        ),
        (
            "Meta-Llama-3.1-8B.json --available 9GiB --optimize --mean-tokens abc",
            "--mean-tokens: expected tokens of at least 1, got 'abc'",
        ),
        (
            "Meta-Llama-3.1-8B.json --available 9GiB --check hello",
            "--check: expected a line with one of ",
        ),
        ("Meta-Llama-3.1-8B.json --total x", "--total: expected bytes"),
        ("--available 1GiB Meta-Llama-3.1-8B.json", "CONFIG.json: expected a file before"),
        ("none.json --available 1GiB", "none.json"),
        ("Meta-Llama-3.1-8B.json", "--engine vllm: expected --available"),
        (
            "DeepSeek-V4-Pro.json --available 1GiB --block-size 64",
            "--block-size: expected 256, the only block",
        ),
    ],
)
def test_bad_input_is_one_line_for_each_fault(
    configs: Path, capsys: pytest.CaptureFixture[str], line: str, fault: str
) -> None:
    done = run(capsys, line)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(fault), done.err
    assert len(done.err.splitlines()) == 1


def test_the_flags_of_an_engine_are_listed(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "Meta-Llama-3.1-8B.json --flags")
    assert done.code == 0
    assert any(line.startswith("--kv-cache-dtype") for line in done.out.splitlines())
    assert run(capsys, "--flags").out == done.out


def test_a_config_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "--engine vllm")
    assert done.code == 2
    assert done.err == (
        "CONFIG.json: expected a model's config, or - for standard input, got none\n"
    )


@pytest.mark.parametrize(
    ("line", "differs"),
    [
        ("GPU KV cache size: 302,921 tokens", False),
        ("gpu kv cache size : 302,921 tokens, at step 3", False),
        ("GPU KV cache size: 302,921,000 tokens", True),
        ("GPU KV cache size: 302,92 tokens", True),
        ("max_total_num_tokens=4096, chunked_prefill_size=8192", False),
        ("max_total_num_tokens=40961", True),
        ("max_total_num_tokens=4096.5", True),
    ],
)
def test_a_log_line_may_go_on_after_the_figure(line: str, differs: bool) -> None:
    figures = {"GPU KV cache size": "302,921 tokens", "max_total_num_tokens": "4096"}
    assert bool(check_lines(figures, [line])) is differs


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "atom", "llama.cpp"])
def test_a_card_without_weights_asks_for_the_weights(
    engine: str, configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, f"Qwen3-8B.json --engine {engine}", "--gpu", "RTX 4090")
    assert done.code == 2
    assert done.err.startswith("--weights-gib: expected GiB of weights on one rank")
    bare = run(capsys, f"Qwen3-8B.json --engine {engine}")
    assert bare.err.startswith(f"--engine {engine}: expected --available")
