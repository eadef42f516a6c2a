"""kvplan model --from-log: the start of a log as a problem, alone or with the model's config."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver import plan
from support.cli import run_kvplan
from support.logs import SGLANG_DRAFT, SGLANG_SWA, TRTLLM, atom_lines, budget_line, write
from support.vllm_server import CONFIGS

Capture = pytest.CaptureFixture[str]
TAG = "(EngineCore_DP0 pid=1)"
VLLM = [
    f"{TAG} INFO [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: "
    "model='meta-llama/Llama-3.1-8B', dtype=torch.bfloat16, max_seq_len=8192, "
    "tensor_parallel_size=1, kv_cache_dtype=auto",
    f"{TAG} INFO Available KV cache memory: 58.11 GiB",
    f"{TAG} INFO GPU KV cache size: 476,016 tokens",
    f"{TAG} INFO Maximum concurrency for 8,192 tokens per request: 58.11x",
]
REFUSED = [
    VLLM[0].replace("8192", "131072"),
    f"{TAG} INFO Available KV cache memory: 6.00 GiB",
    f"{TAG} ValueError: To serve at least one request with the models's max seq len (131072), "
    "(16.00 GiB KV cache is needed, which is larger than the available KV cache memory (6.00 "
    "GiB). Based on the available memory, the estimated maximum model length is 49152.",
]
LLAMA = [
    "llama_context: n_ctx         = 32768",
    "llama_kv_cache: size = 4352.00 MiB ( 32768 cells,  64 layers,  1/1 seqs), K (q8_0): "
    "2176.00 MiB, V (q8_0): 2176.00 MiB",
]


def described(capsys: Capture, folder: Path, lines: list[str]) -> tuple[Problem, Path]:
    done = run_kvplan(capsys, "model", "--from-log", write(folder, lines))
    assert (done.code, done.err) == (0, "")
    path = folder / "problem.yaml"
    path.write_text(done.out)
    return Problem.parse(done.out), path


def counted(problem: Problem) -> int:
    answer: Plan = plan(problem)
    return answer.blocks[problem.pools[0].name]


@pytest.mark.parametrize(
    ("lines", "blocks", "block_bytes"),
    [
        (VLLM, 29_751, 2**21),
        (SGLANG_DRAFT, 454_112, 21504),
        (SGLANG_SWA, 1_496_958, None),
        (TRTLLM, 116_617, None),
        (LLAMA, 128, 35_651_584),
        ([budget_line(line) for line in atom_lines("443b280", "Meta-Llama")], 107_703, 540_672),
    ],
)
def test_the_plan_of_the_problem_is_the_start_of_the_log(
    lines: list[str], blocks: int, block_bytes: int | None, capsys: Capture, tmp_path: Path
) -> None:
    problem, _ = described(capsys, tmp_path, lines)
    assert counted(problem) == blocks
    if block_bytes is not None:
        assert problem.pools[0].bytes == block_bytes


def test_ranks_that_disagree_keep_what_each_has(capsys: Capture, tmp_path: Path) -> None:
    line = "[2026-09-12 00:22:48 TP{}] KV Cache is allocated. #tokens: {}, "
    line += "K size: {size} GB, V size: {size} GB"
    lines = [line.format(0, 454112, size=3.46), line.format(1, 390000, size=2.98)]
    problem, _ = described(capsys, tmp_path, lines)
    assert [rank.name for rank in problem.ranks] == ["TP0", "TP1"]
    assert counted(problem) == 390_000
    assert plan(problem).ranks[0].slack == (454_112 - 390_000) * 16_384


def test_a_refused_start_is_explained_and_solved_with_more(capsys: Capture, tmp_path: Path) -> None:
    problem, path = described(capsys, tmp_path, REFUSED)
    with pytest.raises(Infeasible):
        plan(problem)
    done = run_kvplan(capsys, "explain", path)
    assert done.code == 1
    assert "10.00 GiB" in done.out
    assert run_kvplan(capsys, "solve", path, "--set", "ranks.*.quota=16GiB").code == 0
    shorter = run_kvplan(
        capsys, "solve", path, "--set", "batches.longest.requests.request.capacity=49152"
    )
    assert shorter.code == 0


def test_readings_stay_readings(capsys: Capture, tmp_path: Path) -> None:
    """ATOM's terms make the room, so that a utilization can be tried."""
    line = atom_lines("443b280", "Meta-Llama")[0]
    problem, path = described(capsys, tmp_path, [budget_line(line)])
    memory = problem.ranks[0].memory
    assert memory is not None
    assert memory.utilization == pytest.approx(0.3)
    more = run_kvplan(capsys, "solve", path, "--json", "--set", "ranks.*.memory.utilization=0.4")
    assert json.loads(more.out)["blocks"]["kv"] > 107_703 * 1.3


def test_an_override_limits_the_pool(capsys: Capture, tmp_path: Path) -> None:
    line = f"{TAG} INFO Overriding num_gpu_blocks=29751 with num_gpu_blocks_override=100"
    problem, _ = described(capsys, tmp_path, [VLLM[1], line])
    assert counted(problem) == 100


def test_a_log_that_says_too_little_is_refused(capsys: Capture, tmp_path: Path) -> None:
    path = write(tmp_path, VLLM[:2])
    done = run_kvplan(capsys, "model", "--from-log", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{path}: expected a count, and the bytes")


def modelled(
    capsys: Capture, folder: Path, model: str, lines: list[str], *more: str
) -> tuple[int, str, str]:
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIGS[model]))
    log = write(folder, lines)
    return run_kvplan(capsys, "model", path, "--from-log", log, *more)


@pytest.mark.parametrize(
    ("model", "lines", "figures"),
    [
        ("Meta-Llama-3.1-8B", VLLM, {"GPU KV cache size": "476,016 tokens"}),
        (
            "Meta-Llama-3.1-8B",
            [budget_line(line) for line in atom_lines("443b280", "Meta-Llama")],
            {"available_for_kv": "54.23GB"},
        ),
        (
            "Qwen3-8B",
            [
                "llama_context: n_ctx         = 16384",
                "llama_kv_cache: size = 2304.00 MiB ( 16384 cells,  36 layers,  1/1 seqs), "
                "K (f16): 1152.00 MiB, V (f16): 1152.00 MiB",
            ],
            {"full cells": "16384", "full size": "2304.00 MiB"},
        ),
        (
            "Qwen3-235B-A22B",
            [
                f"[2026-09-12 00:22:48 TP{rank}] {text}"
                for rank in range(4)
                for text in (
                    "KV Cache is allocated. #tokens: 501939, K size: 11.25 GB, V size: 11.25 GB",
                    "max_total_num_tokens=501939, chunked_prefill_size=4096, "
                    "max_prefill_tokens=16384, max_running_requests=4096, context_len=40960, "
                    "available_gpu_mem=5.00 GB",
                )
            ],
            {"max_total_num_tokens": "501939", "K size": "11.25 GB"},
        ),
    ],
)
def test_a_config_with_a_log_needs_no_flags(
    model: str, lines: list[str], figures: dict[str, str], capsys: Capture, tmp_path: Path
) -> None:
    checks = [part for line in lines[-2:] for part in ("--check", line) if "[atom" not in line]
    code, out, err = modelled(capsys, tmp_path, model, lines, *checks)
    assert (code, err) == (0, "")
    for label, value in figures.items():
        assert f"#   {label}: {value}\n" in out
    Problem.parse(out)


def test_typed_flags_win_over_the_log(capsys: Capture, tmp_path: Path) -> None:
    more: tuple[Any, ...] = ("--kv-cache-dtype", "fp8", "--available", "10GiB")
    code, out, _ = modelled(capsys, tmp_path, "Meta-Llama-3.1-8B", VLLM, *more)
    assert code == 0
    assert re.search(r"GPU KV cache size: 163,840 tokens", out)


@pytest.mark.parametrize(
    "line",
    [
        ("--", "vllm", "serve", "m", "--kv_cache_dtype=fp8", "--max-model-len", "8k"),
        ("--kv-cache-dtype", "fp8", "--available=10GiB", "--", "vllm", "serve", "m"),
    ],
)
def test_a_pasted_line_wins_over_the_log_in_any_spelling(
    line: tuple[str, ...], capsys: Capture, tmp_path: Path
) -> None:
    code, out, err = modelled(capsys, tmp_path, "Meta-Llama-3.1-8B", VLLM, *line)
    assert (code, err) == (0, "")
    length = "8,000" if "8k" in line else "8,192"
    ten = "--available=10GiB" in line
    assert ("GPU KV cache size: 163,840 tokens" in out) is ten
    assert ("GPU KV cache size: 952,048 tokens" in out) is not ten
    assert f"for {length} tokens" in out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--engine", "sglang"), "--engine: expected vllm, whose log --from-log reads, got sglang"),
        (("--", "llama-server"), "--from-log: expected llama.cpp, whose command line follows, "),
    ],
)
def test_the_log_is_of_the_engine_that_was_typed(
    line: tuple[str, ...], said: str, capsys: Capture, tmp_path: Path
) -> None:
    code, out, err = modelled(capsys, tmp_path, "Meta-Llama-3.1-8B", VLLM, *line)
    assert (code, out) == (2, "")
    assert err.startswith(said)


def test_json_holds_the_figures_that_were_compared(capsys: Capture, tmp_path: Path) -> None:
    more = ("--json", "--check", "GPU KV cache size: 486,016 tokens")
    code, out, err = modelled(capsys, tmp_path, "Meta-Llama-3.1-8B", VLLM, *more)
    assert (code, err.count("\n")) == (1, 1)
    document = json.loads(out)
    assert document["figures"]["GPU KV cache size"] == "476,016 tokens"
    assert Problem.model_validate(document["problem"])


def test_a_chunk_that_sglang_derives_is_compared(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Qwen3-8B"]))
    base = ("model", path, "--engine", "sglang", "--available", "20GiB", "--check")
    line = "chunked_prefill_size={}, max_prefill_tokens=16384, context_len=40960"
    assert run_kvplan(capsys, *base, line.format(8192)).code == 0
    done = run_kvplan(capsys, *base, line.format(4096))
    assert (done.code, "chunked_prefill_size: the log says 4096" in done.err) == (1, True)


NOT_STARTED = [  # LMCache/LMCache#1372, with the lines that vLLM prints before
    "INFO 11-08 09:12:01 [api_server.py:1896] vLLM API server version 0.19.0",
    "INFO 11-08 09:12:01 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', "
    "'max_model_len': 32768}",
    "ValueError: To serve at least one request with the models's max seq len (32768), (4.50 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (3.58 GiB). Based on "
    "the available memory, the estimated maximum model length is 26032.",
]


@pytest.mark.parametrize("lines", [NOT_STARTED, NOT_STARTED[2:]], ids=["with its start", "alone"])
def test_a_refusal_with_a_config_says_what_would_start(
    lines: list[str], capsys: Capture, tmp_path: Path
) -> None:
    """The length and the room stand in the refusal alone; the room is cut to what starts."""
    older = ("--engine-version", "0.19.0") if lines != NOT_STARTED else ()
    code, out, err = modelled(capsys, tmp_path, "Qwen3-8B", lines, *older, "--check", lines[-1])
    assert (code, err) == (0, "")
    assert "#   max seq len: 32768\n" in out
    assert "#   the estimated maximum model length is: 26032\n" in out


def test_non_default_arguments_are_flags(capsys: Capture, tmp_path: Path) -> None:
    more = "'max_model_len': 32768, 'tensor_parallel_size': 2, 'kv_cache_dtype': 'fp8'"
    lines = [line.replace("'max_model_len': 32768", more) for line in NOT_STARTED[:2]]
    lines.append("INFO 11-08 09:12:55 [gpu_worker.py:298] Available KV cache memory: 3.58 GiB")
    lines.append("INFO 11-08 09:12:56 [kv_cache_utils.py:1326] GPU KV cache size: 104,256 tokens")
    code, out, err = modelled(capsys, tmp_path, "Qwen3-8B", lines)
    assert (code, err) == (0, "")
    assert "bytes: 589824," in out  # a quarter of 2,359,296
    assert "capacity: 32768}" in out
