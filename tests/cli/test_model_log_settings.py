"""kvplan model CONFIG --from-log: settings that a log names before its engine counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.test_model_from_log import modelled

from support.cli import run_kvplan
from support.logs import write

Capture = pytest.CaptureFixture[str]
ARGUMENTS = [
    "INFO 05-01 10:00:00 [api_server.py:1] vLLM API server version 0.19.0",
    "INFO 05-01 10:00:00 [utils.py:1] non-default args: {'model': 'm', 'max_model_len': 8192, "
    "'kv_cache_dtype': 'fp8', 'enforce_eager': True, 'compilation_config': {'max_num_seqs': 7}, "
    "'enable_prefix_caching': False, 'gpu_memory_utilization': 0.5, 'max_num_seqs': 512}",
]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_settings_hold_before_the_engine_counts(capsys: Capture, tmp_path: Path) -> None:
    lines = [*ARGUMENTS, "INFO 05-01 10:00:10 [worker.py:1] Available KV cache memory: 7.2 GiB"]
    code, out, err = modelled(capsys, tmp_path, "Meta-Llama-3.1-8B", lines)
    assert (code, err) == (0, "")
    assert "on vLLM 0.19.0" in out
    assert "capacity: 8192}" in out
    assert "bytes: 1048576," in out  # fp8: half of 2 MiB


@pytest.mark.parametrize("last", [[], [OOM]])
def test_every_known_argument_is_taken(last: list[str], capsys: Capture, tmp_path: Path) -> None:
    card = ("--gpu", "H100-80GB", "--weights-gib", "15")
    lines = [*ARGUMENTS, *last]
    code, out, err = modelled(capsys, tmp_path, "Meta-Llama-3.1-8B", lines, *card)
    assert (code, err) == (0, "")
    assert "utilization: 1/2\n" in out
    told = ("--max-model-len:", "--gpu-memory-utilization:", "--max-num-seqs:", "--engine-version:")
    assert not [name for name in told if name in out]  # none is assumed
    typed = ("--engine-version", "0.19.0", "--max-model-len", "8192", "--kv-cache-dtype", "fp8")
    more = ("--enforce-eager", "--no-enable-prefix-caching", "--max-num-seqs", "512")
    share = ("--gpu-memory-utilization", "0.5")
    config = tmp_path / "config.json"
    assert out == run_kvplan(capsys, "model", config, *card, *typed, *more, *share).out


def test_settings_alone_are_no_start_to_check(capsys: Capture, tmp_path: Path) -> None:
    done = run_kvplan(capsys, "check-log", write(tmp_path, ARGUMENTS))
    assert done.code == 2
    assert "expected memory lines" in done.err
