"""kvplan check-log --diff: what changed between two logs, and which change moved the count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import run_kvplan
from support.logs import atom_lines, budget_line, write

Capture = pytest.CaptureFixture[str]
VLLM = [
    "(EngineCore_DP0 pid=1) INFO [core.py:105] Initializing a V1 LLM engine (v0.11.0) with config: "
    "model='meta-llama/Llama-3.1-8B', dtype=torch.bfloat16, max_seq_len=8192, "
    "tensor_parallel_size=1, kv_cache_dtype=auto",
    "(EngineCore_DP0 pid=1) INFO Model loading took 14.99 GiB and 3.1 seconds",
    "(EngineCore_DP0 pid=1) INFO Available KV cache memory: 58.11 GiB",
    "(EngineCore_DP0 pid=1) INFO GPU KV cache size: 476,016 tokens",
    "(EngineCore_DP0 pid=1) INFO Maximum concurrency for 8,192 tokens per request: 58.11x",
]


def changed(*pairs: tuple[str, str]) -> list[str]:
    lines = VLLM
    for old, new in pairs:
        assert any(old in line for line in lines)
        lines = [line.replace(old, new) for line in lines]
    return lines


def compared(capsys: Capture, folder: Path, before: list[str], after: list[str]) -> Any:
    paths = write(folder, before, "a.log"), write(folder, after, "b.log")
    done = run_kvplan(capsys, "check-log", "--diff", "--json", *paths)
    assert (done.code, done.err) == (0, "")
    assert run_kvplan(capsys, "check-log", "--diff", *paths).code == 0
    return json.loads(done.out)


def test_equal_logs_differ_in_nothing(capsys: Capture, tmp_path: Path) -> None:
    found = compared(capsys, tmp_path, VLLM, VLLM)
    assert (found["changes"], found["causes"]) == ([], [])


def test_less_room_explains_fewer_tokens(capsys: Capture, tmp_path: Path) -> None:
    less = changed(
        ("58.11 GiB", "56.11 GiB"),
        ("14.99", "16.99"),
        ("476,016", "459,632"),
        ("58.11x", "56.11x"),
    )
    found = compared(capsys, tmp_path, VLLM, less)
    assert found["counts"] == {"before": 476_016, "after": 459_632}
    (cause,) = found["causes"]
    assert (cause["name"], cause["moved"]) == ("room", -16_384)
    assert cause["text"] == "the cache has 2.00 GiB less; loaded takes 2.00 GiB"


def test_a_dtype_that_halves_a_token_is_named(capsys: Capture, tmp_path: Path) -> None:
    half = changed(("dtype=auto", "dtype=fp8"), ("476,016", "952,032"), ("58.11x", "116.21x"))
    (cause,) = compared(capsys, tmp_path, VLLM, half)["causes"]
    assert (cause["name"], cause["moved"]) == ("size", 476_016)
    assert "0.5 times the bytes: kv-cache-dtype auto -> fp8" in cause["text"]


def test_room_and_size_share_the_change(capsys: Capture, tmp_path: Path) -> None:
    both = changed(
        ("dtype=auto", "dtype=fp8"),
        ("58.11 GiB", "64.61 GiB"),
        ("14.99", "8.49"),
        ("476,016", "1,058,512"),
        ("58.11x", "129.21x"),
    )
    causes = compared(capsys, tmp_path, VLLM, both)["causes"]
    assert [cause["name"] for cause in causes] == ["room", "size"]
    assert sum(cause["moved"] for cause in causes) == 1_058_512 - 476_016


def test_room_that_no_term_explains_is_said(capsys: Capture, tmp_path: Path) -> None:
    odd = changed(
        ("58.11 GiB", "55.11 GiB"), ("14.99", "15.99"), ("476,016", "451,440"), ("58.11x", "55.11x")
    )
    (cause,) = compared(capsys, tmp_path, VLLM, odd)["causes"]
    assert "loaded takes 1.00 GiB; 2.00 GiB of it are in no printed term" in cause["text"]


def test_an_override_is_the_cause(capsys: Capture, tmp_path: Path) -> None:
    line = "(EngineCore_DP0 pid=1) INFO Overriding num_gpu_blocks=29751 with "
    forced = [*VLLM[:3], f"{line}num_gpu_blocks_override=100", *VLLM[3:]]
    (cause,) = compared(capsys, tmp_path, VLLM, forced)["causes"]
    assert cause["name"] == "override"
    assert "sets 100 blocks in the second log" in cause["text"]


def test_the_terms_of_atom(capsys: Capture, tmp_path: Path) -> None:
    line = atom_lines("443b280", "Meta-Llama")[0]
    more = {**line, "peak_torch": line["peak_torch"] + 1, "num_kvcache_blocks": 105_717}
    more["available_for_kv"] = line["available_for_kv"] - 1
    (cause,) = compared(capsys, tmp_path, [budget_line(line)], [budget_line(more)])["causes"]
    assert (cause["name"], cause["moved"]) == ("room", 105_717 - line["num_kvcache_blocks"])
    assert "peak takes 1.00 GiB" in cause["text"]


@pytest.mark.parametrize("count", [1, 3])
def test_two_logs_are_needed(count: int, capsys: Capture, tmp_path: Path) -> None:
    path = write(tmp_path, VLLM)
    done = run_kvplan(capsys, "check-log", "--diff", *[path] * count)
    assert (done.code, done.err) == (2, f"--diff: expected two logs, got {count}\n")


def test_logs_of_two_engines_do_not_compare(capsys: Capture, tmp_path: Path) -> None:
    other = write(tmp_path, [budget_line(atom_lines("443b280", "Meta-Llama")[0])], "b.log")
    done = run_kvplan(capsys, "check-log", "--diff", write(tmp_path, VLLM, "a.log"), other)
    assert (done.code, done.err) == (2, f"{other}: expected a start of vLLM, got ATOM\n")


def test_a_context_of_llama_cpp_is_its_count(capsys: Capture, tmp_path: Path) -> None:
    lines = (
        "llama_context: n_ctx = {}",
        "llama_kv_cache: size = {:.2f} MiB ({:6d} cells, 36 layers,",
    )
    whole = [
        [lines[0].format(n), f"{lines[1].format(n * 9 / 64, n)} 1/1 seqs)"] for n in (65536, 32768)
    ]
    answer = compared(capsys, tmp_path, *whole)
    assert (answer["counts"]["before"], answer["counts"]["after"]) == (65536, 32768)
    assert [cause["text"] for cause in answer["causes"]] == ["n_ctx 65536 -> 32768"]
