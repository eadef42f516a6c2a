"""--optimize of a pipeline: the partition to set, the engine's own, and the blocks of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import Outcome, run_kvplan

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_key_value_heads": 40,
    "num_hidden_layers": 40,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}
LAYER, END, BLOCK_OF_LAYER = 630_456_320, 1_557_135_360, 16 * 2 * 40 * 128 * 2
UNEVEN = ("--available", "4GiB", "--available", "1GiB")


def folder(tmp_path: Path) -> Path:
    """A model whose tensors are listed: layers of one size, embedding and head."""
    tensors = {"model.embed_tokens.weight": END, "lm_head.weight": END}
    tensors |= {f"model.layers.{index}.mlp.weight": LAYER for index in range(40)}
    header, at = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [at, at + size]}
        at += size
    data = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(len(data).to_bytes(8, "little") + data)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def advised(outcome: Outcome) -> dict[str, Any]:
    assert outcome.code == 0, outcome.err
    lines = [line.removeprefix("# ") for line in outcome.out.splitlines() if line[:2] == "# "]
    start = next(index for index, line in enumerate(lines) if line.startswith("set: "))
    rows = [line.rsplit(maxsplit=2) for line in lines[start + 2 :] if ": " not in line]
    found: dict[str, Any] = {label.strip(): (before, after) for label, before, after in rows}
    return {"set": lines[start], "lines": lines[start:], **found}


def optimize(capsys: pytest.CaptureFixture[str], path: Path, *flags: str) -> dict[str, Any]:
    return advised(run_kvplan(capsys, "model", path, *flags, "--optimize"))


def blocks(available: int, moved: int) -> int:
    """Blocks of a stage after so many layers came (below 0: went)."""
    count = 20 + moved
    return (available - moved * LAYER) // (count * BLOCK_OF_LAYER)


def test_vllm_moves_layers_to_the_stage_with_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("-pp", "2", *UNEVEN, "--max-model-len", "2048")
    found = optimize(capsys, folder(tmp_path), *flags)
    held = {m: min(blocks(2**32, m), blocks(2**30, -m)) for m in range(-5, 6)}
    best = max(held, key=lambda moved: held[moved])
    assert found["set"] == f"set: VLLM_PP_LAYER_PARTITION={20 + best},{20 - best}"
    assert found["layers a stage"] == ("20,20", f"{20 + best},{20 - best}")
    assert found["blocks"] == (str(held[0]), str(held[best]))
    assert held[best] > 2 * held[0]


def test_sglang_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--engine", "sglang", "--pp-size", "2", *UNEVEN, "--page-size", "16")
    found = optimize(capsys, folder(tmp_path), *flags)
    assert found["set"] == "set: SGLANG_PP_LAYER_PARTITION=22,18"
    assert found["pages"] == (str(blocks(2**30, 0)), str(min(blocks(2**32, 2), blocks(2**30, -2))))


def test_the_flag_is_taken_by_both_engines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path)
    words = ("VLLM_PP_LAYER_PARTITION=22,18", "vllm", "serve", "m", "-pp", "2")
    line = ("--available", "4GiB", "--max-model-len", "2048")
    outcome = run_kvplan(capsys, "model", path, "--", *words, *line)
    assert f"'0': {22 * BLOCK_OF_LAYER}" in outcome.out
    flags = ("--engine", "sglang", "--pp-size", "2", "--pp-layer-partition", "22,18")
    outcome = run_kvplan(capsys, "model", path, *flags, "--available", "4GiB", "--page-size", "16")
    assert f"'0': {22 * BLOCK_OF_LAYER}" in outcome.out
    outcome = run_kvplan(capsys, "model", path, *flags[:-1], "22,19", "--available", "4GiB")
    assert outcome.code == 2
    assert "--pp-layer-partition: expected 2 counts that sum to 40" in outcome.err


def test_available_by_stage_in_sglang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--engine", "sglang", "--pp-size", "2", *UNEVEN)
    outcome = run_kvplan(capsys, "model", folder(tmp_path), *flags)
    assert "{name: stage0, stage: 0, quota: 4294967296}" in outcome.out
    assert "{name: stage1, stage: 1, quota: 1073741824}" in outcome.out
    outcome = run_kvplan(capsys, "model", tmp_path, *flags, "--available", "1GiB")
    assert (outcome.code, "one for each of 2 stages, got 3" in outcome.err) == (2, True)


def test_a_default_that_the_engine_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second stage has no room for a block under 20,20 (vllm-project/vllm#6824)."""
    flags = ("-pp", "2", "--available", "8GiB", "--available", "1MiB", "--max-model-len", "1024")
    found = optimize(capsys, folder(tmp_path), *flags)
    assert found["requests at once"][0] == "refused"
    assert found["layers a stage"][0] == "20,20"
    assert found["blocks"][0] == "0"
    assert found["set"].startswith("set: VLLM_PP_LAYER_PARTITION=2")


def test_weights_are_charged_by_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (
        "-pp",
        "2",
        "--total",
        "40GiB",
        "--activation",
        "0",
        "--non-torch",
        "0",
        "--graphs",
        "0",
    )
    outcome = run_kvplan(capsys, "model", folder(tmp_path), *flags)
    assert f"peak_torch: {20 * LAYER + END}" in outcome.out


def test_without_tensors_the_estimate_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "only.json"
    path.write_text(json.dumps(CONFIG))
    flags = ("-pp", "2", *UNEVEN, "--max-model-len", "2048", "--weights-gib", "13.2")
    found = optimize(capsys, path, *flags)
    assert any("layers are taken to be alike" in line for line in found["lines"])
    flags = ("--engine", "sglang", "--pp-size", "2", *UNEVEN)
    outcome = run_kvplan(capsys, "model", path, *flags, "--optimize")
    assert (outcome.code, outcome.err.startswith("--optimize: expected the weights' tensors")) == (
        2,
        True,
    )
