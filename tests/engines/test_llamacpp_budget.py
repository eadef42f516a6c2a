"""What llama.cpp is charged beside its weights, and the share of them with -ngl."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import Infeasible, Plan
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.llamacpp import FLAGS, assumptions, build
from kvplan.models.engines.llamacpp.budget import compute_buffer, estimates, rank_budget
from kvplan.models.engines.llamacpp.gguf_placement import placement_problem
from kvplan.models.engines.registry import Settings
from kvplan.solver import plan
from support.cli import run_kvplan
from support.shapes import architecture

MIB, GIB = 2**20, 2**30
LLAMA = architecture("Meta-Llama-3.1-8B")
CARD = {"total_bytes": 24 * GIB, "weights_bytes": 15 * GIB}
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
}

MIXTURE = {
    "model_type": "qwen3_moe",
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
}


def settings(**given: Any) -> Settings:
    """llama.cpp's flags on a card of 24 GiB."""
    return Settings(FLAGS, {**CARD, **given})


def buffer_mib(**given: Any) -> float:
    """MiB of the estimated compute buffer."""
    return compute_buffer(LLAMA, settings(**given)).bytes / MIB


@pytest.mark.parametrize(
    ("given", "mib"),
    [
        ({"ctx_size": 8192}, 258.5 + 8),  # 512 x 8192 x 2 B of masks
        ({"ctx_size": 131_072}, 258.5 + 128),
        ({"ctx_size": 131_072, "ubatch_size": 1024}, 2 * (258.5 + 128)),
        ({"ctx_size": 8192, "parallel": 4}, 258.5 + 2),  # a buffer for each sequence
        ({"ctx_size": 8192, "flash_attn": "off"}, 258.5 + 8 + 32 * 16),  # f32 scores of 32 heads
    ],
)
def test_the_compute_buffer_by_ubatch_and_context(given: dict[str, Any], mib: float) -> None:
    assert buffer_mib(**given) == mib


def test_terms_are_estimated_with_their_ranges() -> None:
    problem = build(LLAMA, settings(ctx_size=8192))
    assert "compute buffer (258.50 MiB to 399.75 MiB), CUDA context (128.00 MiB" in problem.name
    answer = plan(problem)
    lines = {line.consumer: line for line in answer.ranks[0].ledger}
    buffer, driver = (lines[f"{term} (estimated)"] for term in ("compute buffer", "CUDA context"))
    assert (buffer.source, buffer.note) == ("estimated", "258.50 MiB to 399.75 MiB")
    assert (driver.source, driver.bytes) == ("estimated", 457 * MIB)
    assert answer.ranks[0].quota == 9 * GIB - buffer.bytes - driver.bytes


def test_measured_terms_replace_the_estimates() -> None:
    given = settings(ctx_size=8192, compute_buffer=300 * MIB, cuda_context=0)
    assert estimates(LLAMA, given) == ()
    terms = {"weights": 15 * GIB, "compute buffer": 300 * MIB, "CUDA context": 0}
    assert rank_budget(LLAMA, given)["memory"]["other"] == terms
    assert quota(build(LLAMA, given)) == 9 * GIB - 300 * MIB
    assert quota(build(LLAMA, settings(available=GIB, compute_buffer=MIB))) == GIB


def quota(problem: Any) -> int:
    """Quota of the device in bytes."""
    return int(problem.ranks[0].quota_bytes)


def test_the_context_of_an_amd_card_is_hips() -> None:
    found = [one.term for one in estimates(LLAMA, settings(gpu="MI300X"))]
    assert found == ["compute buffer", "HIP context"]


@pytest.mark.parametrize(
    ("word", "share"), [(12, 12), (1, 1), (0, 0), (33, 33), (99, 33), ("all", 33)]
)
def test_weights_of_the_last_slots_alone(word: object, share: int) -> None:
    given = settings(n_gpu_layers=str(word), ctx_size=8192)
    other = rank_budget(LLAMA, given)["memory"]["other"]
    name = "weights" if share == 33 else "weights (estimated)"
    assert other[name] == -(-15 * GIB * share // 33)


def test_the_range_of_a_share_holds_a_small_and_a_large_output() -> None:
    found = estimates(LLAMA, settings(n_gpu_layers="12", ctx_size=8192))[0]
    assert (found.term, found.least) == ("weights", 15 * GIB * 11 // 32)
    assert found.most == 15 * GIB * 11 // 64 + 15 * GIB // 4


def test_caches_of_host_layers_lie_on_the_host() -> None:
    given = settings(n_gpu_layers="12", ctx_size=8192, total_bytes=16 * GIB)
    answer: Plan = plan(build(LLAMA, given))
    each = 8192 * 2 * 8 * 128 * 2  # K and V of 8 heads of 128 in f16
    pools = {
        rank.name: sum(line.bytes for line in rank.ledger if line.consumer == "full")
        for rank in answer.ranks
    }
    assert pools == {"device": 11 * each, "host": 21 * each}


def kvplan(capsys: Any, folder: Path, *arguments: str, **changes: Any) -> str:
    """Output of kvplan model for a config."""
    path = folder / "config.json"
    data = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    path.write_text(json.dumps(data))
    done = run_kvplan(capsys, "model", path, *arguments)
    assert not done.err
    return str(done.out)


def test_a_card_with_12_layers_starts(capsys: Any, tmp_path: Path) -> None:
    line = ("--", "llama-server", "-c", "8192", "-ngl", "12")
    out = kvplan(capsys, tmp_path, "--gpu", "T4", "--weights-gib", "15", *line)
    assert "what the engine prints" in out
    assert "weights: 5.45 GiB, estimated (5.16 GiB to 6.33 GiB); a GGUF file" in out


def test_the_largest_context_pays_for_its_own_mask(capsys: Any, tmp_path: Path) -> None:
    card = ("--gpu", "RTX 4090", "--weights-gib", "15", "--engine", "llama.cpp")
    out = kvplan(capsys, tmp_path, *card)
    found = re.search(r"largest context that starts: (\d+) tokens", out)
    assert found is not None
    largest = int(found[1])
    assert largest % 256 == 0
    assert "refused" not in kvplan(capsys, tmp_path, *card, "--ctx-size", str(largest))
    assert "refused" in kvplan(capsys, tmp_path, *card, "--ctx-size", str(largest + 1))


@pytest.mark.parametrize(
    ("engine", "flag"), [("llama.cpp", "compute-buffer"), ("vllm", "activation")]
)
def test_a_missing_vocabulary_counts_as_the_largest(
    capsys: Any, tmp_path: Path, engine: str, flag: str
) -> None:
    card = ("--gpu", "RTX 4090", "--weights-gib", "15", "--engine", engine)
    known, missing = (kvplan(capsys, tmp_path, *card, vocab_size=size) for size in (128_256, None))
    line = "vocab_size: not in the config -> 262144"
    assert line in missing
    assert line not in known
    assert _longest(missing) < _longest(known)
    measured = kvplan(capsys, tmp_path, *card, f"--{flag}", "300MiB", vocab_size=None)
    assert line not in measured


def _longest(out: str) -> int:
    found = re.search(r"(?:largest context that starts|maximum model length is): (\d+)", out)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("weights_gib", [20, 23, 40])
def test_what_goes_to_the_host_is_the_least(weights_gib: int) -> None:
    """A card that is too small: the most layers that fit, and one more does not."""
    given = {"weights_bytes": weights_gib * GIB, "ctx_size": 32768}
    problem = build(LLAMA, settings(**given))
    with pytest.raises(Infeasible):
        plan(problem)
    (name,) = [v.name for v in problem.variants if v.name.startswith("--n-gpu-layers")]
    layers = int(name.split()[1])
    assert 0 < layers < 33
    assert plan(build(LLAMA, settings(**given, n_gpu_layers=str(layers))))
    with pytest.raises(Infeasible):
        plan(build(LLAMA, settings(**given, n_gpu_layers=str(layers + 1))))


def test_experts_go_to_the_host_layer_by_layer() -> None:
    known = read_architecture({**CONFIG, "architectures": ["Qwen3MoeForCausalLM"], **MIXTURE})
    tensors = {f"blk.{at}.ffn_up_exps.weight": GIB for at in range(32)}
    tensors |= {f"blk.{at}.attn_q.weight": 64 * MIB for at in range(32)}
    known = replace(known, name="qwen3moe")
    given = {"weights": Weights(tensors, 34 * GIB, "test"), "ctx_size": 8192, "weights_bytes": None}
    problem = build(known, settings(**given))
    (name,) = [v.name for v in problem.variants if v.name.startswith("--n-cpu-moe")]
    number = int(name.split()[1])
    assert 0 < number < 32
    assert plan(build(known, settings(**given, n_cpu_moe=number)))
    with pytest.raises(Infeasible):
        plan(build(known, settings(**given, n_cpu_moe=number - 1)))


def test_a_card_that_holds_all_keeps_all() -> None:
    problem = build(LLAMA, settings(ctx_size=8192))
    assert not [v.name for v in problem.variants if v.name.startswith(("--n-gpu", "--n-cpu"))]


def projector(folder: Path) -> str:
    """A projector's file of 3 MiB."""
    (folder / "mmproj.gguf").write_bytes(b"\0" * 3 * MIB)
    return str(folder / "mmproj.gguf")


def test_a_projector_lies_on_the_card_unless_it_may_not(tmp_path: Path) -> None:
    path = projector(tmp_path)
    given = {"ctx_size": 8192, "compute_buffer": MIB, "cuda_context": 0}
    without = quota(build(LLAMA, settings(**given)))
    problem = build(LLAMA, settings(**given, mmproj=path))
    assert without - quota(problem) == 3 * MIB
    assert quota(build(LLAMA, settings(**given, mmproj=path, mmproj_offload=False))) == without
    assert "--no-mmproj-offload" in [variant.name for variant in problem.variants]
    elsewhere = settings(**given, mmproj="/nowhere/mmproj.gguf")
    assert quota(build(LLAMA, elsewhere)) == without
    assert "--mmproj: not counted (no such file here)" in assumptions(LLAMA, elsewhere)


def test_a_projector_lies_on_the_first_of_several_cards(tmp_path: Path) -> None:
    tensors = {f"blk.{at}.attn_q.weight": 64 * MIB for at in range(32)}
    given = {
        "card": ("3GiB", "3GiB"),
        "host": "64GiB",
        "weights": Weights(tensors, 2 * GIB, "test"),
        "ctx_size": 8192,
        "mmproj": projector(tmp_path),
    }
    problem = placement_problem(LLAMA, Settings(FLAGS, given))
    (charged,) = problem.consumers
    assert charged.name == "projector"
    assert charged.bytes == {"gpu0": 3 * MIB, "gpu1": 0, "host": 0}
    assert plan(problem).placement is not None
    assert problem.variants[0].name == "--no-mmproj-offload"


def test_a_launch_line_with_a_projector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    line = "--gpu RTX4090 --weights-gib 15 -- llama-server -c 8192 -np 1 -mm"
    config = str(tmp_path / "config.json")
    done = run_kvplan(capsys, "model", config, *line.split(), projector(tmp_path))
    assert (done.code, done.err) == (0, "")
    assert "projector: 3145728" in done.out
    assert "#   --mmproj: the file's bytes; its compute buffer is not counted\n" in done.out
