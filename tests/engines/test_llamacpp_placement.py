"""--optimize of a GGUF file: a placement with flags that paste."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.layers import Architecture, Attention
from kvplan.models.engines.llamacpp import FLAGS
from kvplan.models.engines.llamacpp.gguf_placement import placement_problem
from kvplan.models.engines.registry import Settings
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver import plan
from kvplan.solver.advise.llamacpp_placement import optimize
from support.cli import run_kvplan

GIB, MIB = 2**30, 2**20
LAYERS = 8


def model() -> Architecture:
    layers = tuple(Attention(index, "full", 8, 128, 128) for index in range(LAYERS))
    return Architecture(
        "qwen3moe", "qwen3moe", "float16", layers, LAYERS, 131072, experts=128, experts_used=8
    )


def tensors() -> Weights:
    found = {"token_embd.weight": 500 * MIB, "output_norm.weight": MIB, "output.weight": 400 * MIB}
    for index in range(LAYERS):
        found[f"blk.{index}.attn_q.weight"] = 100 * MIB
        found[f"blk.{index}.ffn_gate_inp.weight"] = MIB
        for name in ("down", "gate", "up"):
            found[f"blk.{index}.ffn_{name}_exps.weight"] = 512 * MIB
    return Weights(found, sum(found.values()), "test")


def settings(**given: Any) -> Settings:
    cards = {"card": ("6GiB@936GB/s", "4GiB@360GB/s"), "host": "64GiB@60GB/s"}
    return Settings(FLAGS, {**cards, "ctx_size": 32768, "weights": tensors(), **given})


def test_layers_and_ends_come_from_the_tensors() -> None:
    place = placement_problem(model(), settings()).place
    assert place is not None
    (run,) = place.layers
    assert (run.count, run.dense, run.experts) == (8, 101 * MIB, (512 * MIB,) * 3)
    assert run.names == ("down", "gate", "up")
    assert run.active.as_integer_ratio() == (1, 16)
    assert run.cache == {"full": 256 * 2 * 8 * 128 * 2}
    assert (place.ends.first.bytes, place.ends.last.bytes) == (500 * MIB, 401 * MIB)
    assert place.ends.first.spaces == ("host",)


def test_a_tied_head_is_a_second_copy() -> None:
    known = dict(tensors().tensors)
    del known["output.weight"]
    tied = Weights(known, 0, "test")
    place = placement_problem(model(), settings(weights=tied)).place
    assert place is not None
    assert place.ends.last.bytes == 501 * MIB


def test_every_byte_of_the_file_is_placed_once() -> None:
    problem = placement_problem(model(), settings())
    placement = plan(problem).placement
    assert placement is not None
    held = sum(space.layer_bytes + space.expert_bytes for space in placement.spaces)
    assert held == tensors().total_bytes


def test_each_card_is_charged_a_compute_buffer() -> None:
    """Logits and hidden states of a ubatch, and a mask of 2 B x ubatch a token of context."""
    problem = placement_problem(model(), settings())
    place = problem.place
    assert place is not None
    base = 512 * (262_144 + 16_384) * 4  # of the widest models: this one has no figures
    for name in ("gpu0", "gpu1"):
        assert (place.used[name].base, place.used[name].per_token) == (base, 1024)
    assert place.used["pipelined"].per_token == 4096  # four copies of the inputs
    assert "host" not in place.used
    assert "; estimated: compute buffer (" in problem.name
    placement = plan(problem).placement
    assert placement is not None
    buffers = [space.buffer_bytes for space in placement.spaces if space.name != "host"]
    assert buffers == [base + 1024 * 32768] * 2


def test_a_measured_buffer_stands_in() -> None:
    place = placement_problem(model(), settings(compute_buffer=300 * MIB)).place
    assert place is not None
    assert {name: used.base for name, used in place.used.items()} == {
        "gpu0": 300 * MIB,
        "gpu1": 300 * MIB,
    }
    assert not any(used.per_token for used in place.used.values())


def test_without_flash_attention_scores_are_charged() -> None:
    place = placement_problem(model(), settings(flash_attn="off")).place
    assert place is not None
    assert place.used["gpu0"].per_token == 512 * (2 + 4 * 128)


def test_variants_are_flags_that_make_room() -> None:
    problem = placement_problem(model(), settings())
    assert [variant.name for variant in problem.variants] == [
        "--cache-type-k q8_0 --cache-type-v q8_0",
        "--cache-type-k q8_0",
        "--cache-type-k q4_0 --cache-type-v q4_0",
        "--ubatch-size 256",
        "--ubatch-size 128",
        "--ubatch-size 64",
    ]
    held = {variant.name: _tokens(problem, variant.set) for variant in problem.variants}
    asked = _tokens(problem, ())
    assert all(tokens > asked for tokens in held.values())
    assert held["--cache-type-k q4_0 --cache-type-v q4_0"] > held["--cache-type-k q8_0"]


def _tokens(problem: Problem, changes: tuple[str, ...]) -> int:
    """The longest context, of a million, with all layers on cards that are too small for it."""
    data = problem.model_dump(mode="json", exclude_unset=True)
    data["constraints"] = [{"terms": {"layers:host": 1}, "max": 0}]
    data["batches"][0]["requests"][0]["capacity"] = 2**20
    return plan(Problem.model_validate(apply_overrides(data, changes))).requests[0].capacity


def test_the_advice_pastes() -> None:
    advice = optimize(model(), settings(), 4096)
    flags = " ".join(advice.flags)
    assert flags.startswith("-fit off -ngl 9 -ts ")
    assert "-c 32768" in flags
    assert "--fit" in advice.before
    assert advice.after["context (tokens)"] == "32,768"
    assert "tokens/s at 4,096" in advice.after


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"card": None}, "--card BYTES@RATE for each card, and --host"),
        ({"host": None}, "--card BYTES@RATE for each card, and --host"),
        ({"host": "much"}, "--host: expected BYTES@RATE"),
        ({"card": ("1 parsec",)}, "--card: expected BYTES@RATE"),
        ({"weights": None}, "a GGUF file"),
    ],
)
def test_bad_input(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        placement_problem(model(), settings(**given))


def gguf_file(folder: Path) -> Path:
    """Two layers of eight experts each."""
    gguf = pytest.importorskip("gguf")
    import numpy as np

    writer = gguf.GGUFWriter(folder / "m.gguf", "qwen3moe")
    counts = {"block_count": 2, "expert_count": 8, "expert_used_count": 2, "context_length": 4096}
    for key, value in counts.items():
        writer.add_uint32(f"qwen3moe.{key}", value)
    for key in ("attention.head_count", "attention.head_count_kv", "embedding_length"):
        writer.add_uint32(f"qwen3moe.{key}", 4)
    for index in range(2):
        writer.add_tensor(f"blk.{index}.ffn_up_exps.weight", np.zeros((8, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "m.gguf"


@pytest.mark.parametrize("optimize", [["--optimize"], []])
def test_cards_and_host_are_the_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], optimize: list[str]
) -> None:
    line = ["--engine", "llama.cpp", "--card", "23GiB@936GB/s", "--host", "120GiB@60GB/s"]
    done = run_kvplan(capsys, "model", gguf_file(tmp_path), *line, *optimize)
    assert (done.code, done.err) == (0, "")
    problem = Problem.parse(done.out)
    assert [rank.quota_bytes for rank in problem.ranks] == [23 * GIB, 120 * GIB]
    assert "#   n_ctx_seq: 4096\n" in done.out
    assert ("# set: -fit off -ngl 3" in done.out) == bool(optimize)


def test_cards_without_a_host_are_no_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["--engine", "llama.cpp", "--card", "23GiB@936GB/s", "--optimize"]
    done = run_kvplan(capsys, "model", gguf_file(tmp_path), *line)
    assert (done.code, done.out) == (2, "")
    assert "and --host BYTES@RATE" in done.err
    assert "--available" not in done.err


def test_files_are_read_from_the_header(tmp_path: Path) -> None:
    from kvplan.models.engines.architecture import load_model

    known, weights = load_model(gguf_file(tmp_path))
    assert (known.experts, known.experts_used) == (8, 2)
    place = placement_problem(known, settings(weights=weights)).place
    assert place is not None
    assert [run.experts for run in place.each] == [(1024,), (1024,)]
    assert place.layers[0].tensors == ("up",)
