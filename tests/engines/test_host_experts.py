"""ktransformers: experts by layer from a folder of safetensors, and how many the card holds."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import load_model
from kvplan.models.engines.command_line.typed import Budget, typed_settings
from kvplan.models.engines.registry import Settings, engine_named
from kvplan.solver.advise.sglang_experts import optimize
from support.cli import run_kvplan

MIB, GIB = 2**20, 2**30
LAYERS, EXPERTS = 4, 16
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 65536,
    "vocab_size": 151936,
    "torch_dtype": "bfloat16",
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
}
CELL_BYTES = LAYERS * 2 * 4 * 128 * 2
FIXED = 600 * MIB


def sizes(*, stacked: bool = False) -> dict[str, int]:
    """Tensors of a model whose last layer has larger experts."""
    found = {"model.embed_tokens.weight": 600 * MIB, "lm_head.weight": 600 * MIB}
    for layer in range(LAYERS):
        each = (128 if layer == LAYERS - 1 else 64) * MIB
        found[f"model.layers.{layer}.self_attn.q_proj.weight"] = 100 * MIB
        found[f"model.layers.{layer}.mlp.shared_experts.up_proj.weight"] = 10 * MIB
        if stacked:
            found[f"model.layers.{layer}.mlp.experts.gate_up_proj"] = each * EXPERTS
            continue
        for expert in range(EXPERTS):
            for name in ("up", "down"):
                found[f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj.weight"] = each // 2
    return found


@pytest.fixture(params=[False, True], ids=["by expert", "stacked"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A model folder: config, index and one file that is nothing but its header."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    header, end = {}, 0
    for name, size in sizes(stacked=request.param).items():
        entry = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [end, end + size]}
        header[name], end = entry, end + size
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    index = {"weight_map": dict.fromkeys(header, "model.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def settings(folder: Path, *flags: str, gpu: str = "RTX 3090") -> tuple[Any, Settings]:
    typed = typed_settings(engine_named("sglang"), flags, Budget(gpu, None, None))
    known, weights = load_model(str(folder))
    return known, typed.weighed(weights, known)


def charged(folder: Path, *flags: str) -> int:
    known, given = settings(folder, *flags)
    problem = engine_named("sglang").build(known, given)
    weights: int = problem.ranks[0].memory.other["weights"]
    return weights


@pytest.mark.parametrize("count", [0, 3, EXPERTS, 99])
def test_the_card_holds_so_many_of_each_layer(folder: Path, count: int) -> None:
    dense = 1200 * MIB + LAYERS * 110 * MIB
    held = min(count, EXPERTS) * (3 * 64 + 128) * MIB
    assert charged(folder, "--kt-num-gpu-experts", str(count)) == dense + held


def test_without_the_flag_everything_lies_on_the_card(folder: Path) -> None:
    assert charged(folder) == sum(sizes().values())


def test_tensor_parallel_ranks_share_them(folder: Path) -> None:
    one = charged(folder, "--kt-num-gpu-experts", "4")
    assert charged(folder, "--kt-num-gpu-experts", "4", "--tp-size", "2") == -(-one // 2)


def test_the_most_experts_leave_one_longest_request(folder: Path) -> None:
    """By the engine's own budget: one expert more leaves fewer tokens than the context."""
    known, given = settings(folder, "--kt-num-gpu-experts", "0", "--mem-fraction-static", "0.25")
    advice = optimize(known, given, 4096)
    best = int(advice.flags["--kt-num-gpu-experts"])
    assert 0 < best < EXPERTS
    assert int(advice.after["max_total_num_tokens"]) >= 65536
    assert advice.after["experts of each layer"] == str(best)
    spare = int(advice.after["max_total_num_tokens"]) - 65536
    assert spare * CELL_BYTES < (3 * 64 + 128) * MIB
    assert int(advice.after["experts at 8,192 tokens"]) >= best


def test_a_card_with_room_holds_every_expert(folder: Path) -> None:
    known, given = settings(folder, "--kt-num-gpu-experts", "0", gpu="H200")
    assert optimize(known, given, 4096).flags == {"--kt-num-gpu-experts": str(EXPERTS)}


def test_the_command_prints_the_flag(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["--gpu", "RTX 3090", "--optimize", "--host-memory", "64GiB", "--"]
    launch = "python -m sglang.launch_server --model x --kt-num-gpu-experts 1 --kt-method AMXINT4"
    done = run_kvplan(capsys, "model", str(folder), *line, *launch.split())
    assert (done.code, done.err) == (0, "")
    assert "# set: --kt-num-gpu-experts " in done.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--host-memory", "2GiB"), "--host-memory: expected at least 5_368_709_120 B"),
        (("--available", "4GiB"), "--available: expected --gpu or --total"),
        (("--context-length", "90000000"), "--context-length: expected at most "),
    ],
)
def test_bad_input(folder: Path, flags: tuple[str, ...], message: str) -> None:
    known, given = settings(folder, "--kt-num-gpu-experts", "0", *flags)
    with pytest.raises(InvalidProblem, match=message):
        optimize(known, given, 4096)


def test_without_tensors_there_is_nothing_to_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    flags = ["--engine", "sglang", "--gpu", "H200", "--weights-gib", "9", "--optimize"]
    done = run_kvplan(capsys, "model", str(path), *flags, "--kt-num-gpu-experts", "4")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "--optimize: expected a model folder with the experts' tensors (only their sizes are "
        "read), got none\n"
    )
