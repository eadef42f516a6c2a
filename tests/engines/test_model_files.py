"""CONFIG as a folder or a GGUF file: layers from metadata, weights from the headers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import load_architecture, load_model
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.layers import Attention
from kvplan.models.engines.llamacpp import FLAGS, assumptions, build
from kvplan.models.engines.llamacpp.offload import device_bytes
from kvplan.models.engines.registry import Settings
from kvplan.solver import oracle, plan
from support.cli import run_kvplan
from support.llamacpp import MODELS, architecture_of

gguf = pytest.importorskip("gguf")
LLAMA = {
    "block_count": 4,
    "context_length": 4096,
    "embedding_length": 64,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
    "attention.key_length": 128,
    "attention.value_length": 128,
}
TENSORS = {
    "token_embd.weight": 1000,
    "output_norm.weight": 10,
    **{f"blk.{index}.attn_q.weight": 100 for index in range(4)},
    **{f"blk.{index}.ffn_up_exps.weight": 800 for index in range(4)},
}


def write(path: Path, arch: str, meta: dict[str, Any], tensors: dict[str, int]) -> Path:
    """Write a GGUF file with this metadata and float32 tensors of so many values."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in meta.items():
        name = f"{arch}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    for name, values in tensors.items():
        writer.add_tensor(name, np.zeros(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("name", MODELS)
def test_layers_of_a_gguf_file_are_the_engines(name: str, tmp_path: Path) -> None:
    """The library's own metadata: the same layers that its caches were compared by."""
    meta = {key: value for key, value in MODELS[name].items() if key != "arch"}
    heads = 8 if "attention.head_count_kv" in meta else 0
    meta = {"attention.head_count": heads, "embedding_length": 64, **meta}
    path = write(tmp_path / "model.gguf", MODELS[name]["arch"], meta, {"output.weight": 4})
    known, expected = load_architecture(path), architecture_of({"id": f"{name}/0"})
    shapes = [(type(layer), sizes(layer)) for layer in known.target]
    assert shapes == [(type(layer), sizes(layer)) for layer in expected.layers]
    assert (known.name, known.total_layers) == (MODELS[name]["arch"], meta["block_count"])


def sizes(layer: Any) -> tuple[Any, ...]:
    """What a layer keeps, whatever its kind is called."""
    if isinstance(layer, Attention):
        return layer.index, layer.kv_heads, layer.key_dim, layer.window, layer.chunk
    names = ("index", "latent_dim", "rope_dim", "heads", "head_dim", "state_dim", "conv_channels")
    return tuple(getattr(layer, name, None) for name in names)


def test_a_gguf_file_says_its_weights(tmp_path: Path) -> None:
    known, weights = load_model(write(tmp_path / "m.gguf", "llama", LLAMA, TENSORS))
    assert weights is not None
    assert weights.total_bytes == 4 * (1010 + 4 * 900)
    assert weights.layer_bytes == dict.fromkeys(range(4), 3600)
    assert weights.expert_bytes(8) == 400
    assert known.max_positions == 4096


@pytest.mark.parametrize(
    ("given", "values"),
    [
        # the output reads a copy of the embedding, which itself stays on the host
        ({}, 1000 + 10 + 4 * 900),
        ({"n_gpu_layers": "4"}, 1010 + 3 * 900),
        ({"n_gpu_layers": "2"}, 1010 + 1 * 900),
        ({"n_gpu_layers": "0"}, 0),
        ({"cpu_moe": True}, 1010 + 4 * 100),
        ({"n_cpu_moe": 3}, 1010 + 4 * 100 + 800),
        ({"override_tensor": (r"blk\.[01]\.ffn_.*_exps=CPU",)}, 1010 + 4 * 100 + 2 * 800),
        ({"override_tensor": (r"exps=CUDA0,attn=CPU",), "cpu_moe": True}, 1010 + 4 * 800),
    ],
)
def test_tensors_on_the_device(given: dict[str, Any], values: int, tmp_path: Path) -> None:
    known, weights = load_model(write(tmp_path / "m.gguf", "llama", LLAMA, TENSORS))
    assert isinstance(weights, Weights)
    assert device_bytes(known, Settings(FLAGS, given), weights) == 4 * values


@pytest.mark.parametrize(
    ("given", "device", "host"),
    [
        ({}, 4, 0),
        ({"n_gpu_layers": "3"}, 2, 2),
        ({"n_gpu_layers": "0"}, 0, 4),
        ({"kv_offload": False}, 0, 4),
    ],
)
def test_caches_lie_with_their_layers(
    given: dict[str, Any], device: int, host: int, tmp_path: Path
) -> None:
    known = load_architecture(write(tmp_path / "m.gguf", "llama", LLAMA, TENSORS))
    each = 4096 * 2 * 128 * 2  # keys of a layer
    settings = Settings(FLAGS, {"available": device * 2 * each, **given})
    problem = build(known, settings)
    answer = plan(problem)
    assert list(oracle.check(problem, answer)) == []
    assert [rank.quota for rank in problem.ranks] == [
        device * 2 * each,
        *([host * 2 * each] if host else []),
    ]
    assert any("lie on the host" in line for line in assumptions(known, settings)) is bool(host)


def test_a_budget_from_the_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "m.gguf", "llama", LLAMA, TENSORS)
    done = run_kvplan(capsys, "model", path, "--engine", "llama.cpp", "--total", "1GiB")
    assert done.code == 0
    assert f"other: {{weights: {4 * (1010 + 4 * 900)}, compute buffer (estimated)" in done.out
    assert "#   weights: 18_440 B" in done.out


def test_parts_of_a_split_file_are_read_together(tmp_path: Path) -> None:
    first = write(tmp_path / "m-00001-of-00002.gguf", "llama", LLAMA, {"output.weight": 8})
    with pytest.raises(InvalidProblem, match=r"no m-00002-of-00002.gguf"):
        load_model(first)
    write(tmp_path / "m-00002-of-00002.gguf", "llama", {}, {"blk.0.attn_q.weight": 16})
    _, weights = load_model(tmp_path)
    assert weights is not None
    assert weights.tensors == {"output.weight": 32, "blk.0.attn_q.weight": 64}


@pytest.mark.parametrize("keep", [4, 24, 200])
def test_a_broken_file_is_one_line(keep: int, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "llama", LLAMA, TENSORS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InvalidProblem, match="a complete GGUF file"):
        load_model(path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    meta = {key: value for key, value in LLAMA.items() if key != "block_count"}
    with pytest.raises(InvalidProblem, match=r"llama.block_count: expected .*, got none"):
        load_architecture(write(tmp_path / "m.gguf", "llama", meta, TENSORS))


QWEN = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_size": 256,
    "max_position_embeddings": 4096,
    "dtype": "bfloat16",
}


def folder(path: Path, files: dict[str, dict[str, int]], *, index: bool = False) -> Path:
    """Write a folder with a config and safetensors files of so many bytes a tensor."""
    (path / "config.json").write_text(json.dumps(QWEN))
    names: dict[str, str] = {}
    for file, tensors in files.items():
        header, offset = {}, 0
        for name, count in tensors.items():
            names[name] = file
            header[name] = {
                "dtype": "U8",
                "shape": [count],
                "data_offsets": [offset, offset + count],
            }
            offset += count
        text = json.dumps(header).encode()
        (path / file).write_bytes(len(text).to_bytes(8, "little") + text + bytes(offset))
    if index:
        total = sum(count for tensors in files.values() for count in tensors.values())
        data = {"metadata": {"total_size": total}, "weight_map": names}
        (path / "model.safetensors.index.json").write_text(json.dumps(data))
    return path


SHARDS = {
    "model-00001-of-00002.safetensors": {
        "model.embed_tokens.weight": 500,
        "model.layers.0.mlp.experts.0.up_proj.weight": 30,
        "model.layers.0.mlp.experts.0.down_proj.weight": 20,
        "model.layers.0.mlp.experts.1.up_proj.weight": 30,
    },
    "model-00002-of-00002.safetensors": {"model.layers.1.self_attn.q_proj.weight": 70},
}


def test_a_folder_says_its_weights(tmp_path: Path) -> None:
    known, weights = load_model(folder(tmp_path, SHARDS, index=True))
    assert weights is not None
    assert (weights.total_bytes, weights.layer_bytes) == (650, {0: 80, 1: 70})
    assert weights.expert_bytes(0) == 50
    assert known.name == "Qwen3ForCausalLM"
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    _, less = load_model(tmp_path / "config.json")
    assert less is not None
    assert (less.total_bytes, dict(less.tensors)) == (650, {})


def test_a_config_alone_has_no_weights(tmp_path: Path) -> None:
    assert load_model(folder(tmp_path, {}))[1] is None
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidProblem, match=r"config.json or one GGUF file, got neither"):
        load_model(tmp_path / "empty")


def test_a_broken_header_is_one_line(tmp_path: Path) -> None:
    path = folder(tmp_path, {"model.safetensors": {"a": 4}})
    (path / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(InvalidProblem, match="a safetensors header"):
        load_model(path)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_weights_at_hand_make_the_budget(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path, SHARDS)
    arguments = ("model", path, "--engine", engine, "--gpu", "L4")
    done = run_kvplan(capsys, *arguments)
    assert (done.code, done.err) == (0, "")
    assert "#   weights: 650 B" in done.out
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    assert run_kvplan(capsys, *arguments).code == 2
