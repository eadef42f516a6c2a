"""Machines with one memory for GPU and host: what the GPU does not get, and a buffer's limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.cards import card_named, chip_of, machine_of, total_bytes
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.command_line.typed import Budget, typed_settings
from kvplan.models.engines.llamacpp.gguf_placement import placement_problem
from kvplan.models.engines.registry import engine_named
from kvplan.models.engines.unified import MACHINES, SYSTEM, apple
from kvplan.solver import plan
from support.cli import run_kvplan
from support.vllm_server import CONFIGS

GIB, MIB = 2**30, 2**20
MODEL = read_architecture(CONFIGS["Qwen3-8B"])


def built(engine: str, gpu: str, *flags: str, total: str | None = None) -> Problem:
    adapter = engine_named(engine)
    settings = typed_settings(adapter, flags, Budget(gpu, total, "8"))
    problem: Problem = adapter.build(MODEL, settings)
    return problem


def terms(problem: Problem) -> dict[str, int]:
    memory = problem.ranks[0].memory
    assert memory is not None
    return dict(memory.other)


@pytest.mark.parametrize(
    ("ram_gib", "mib"),
    [(16, 10922), (32, 21845), (36, 24576), (64, 49152), (128, 98304), (192, 147456)],
)
def test_a_mac_lends_two_thirds_or_three_quarters(ram_gib: int, mib: int) -> None:
    """21,845.34 of 32,768 MiB: llama.cpp #2011."""
    machine = apple(ram_gib)
    reached = machine.total_bytes - machine.estimate.bytes
    assert abs(reached - mib * MIB) <= GIB // 100  # the table has hundredths
    assert machine.estimate.least <= machine.estimate.bytes == machine.estimate.most
    assert machine.largest_buffer == ram_gib * GIB // 2


def test_newer_systems_are_in_the_range() -> None:
    """11.84 of 16 GiB: llmfit #754; 107.52 of 128: antirez/ds4 #893."""
    for ram_gib, hundredths in ((16, 1184), (128, 10752)):
        kept = apple(ram_gib).estimate
        left = ram_gib * GIB - hundredths * GIB // 100
        assert kept.least <= left + GIB // 100
        assert left <= kept.most


@pytest.mark.parametrize("name", ["M4 Max 64GB", "m4max64gb", "apple 64gb", "Apple M3 Ultra 64GB"])
def test_a_mac_by_any_name(name: str) -> None:
    assert machine_of(name) is MACHINES["Apple 64GB"]
    assert total_bytes(name) == 64 * GIB


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_llama_cpp_budget_adds_up(name: str) -> None:
    problem, machine = built("llama.cpp", name, "--ctx-size", "4096", "-np", "1"), MACHINES[name]
    kept = machine.estimate
    assert terms(problem)[f"{kept.term} (estimated)"] == kept.bytes
    memory = problem.ranks[0].memory
    assert memory is not None
    assert memory.ranges[f"{kept.term} (estimated)"] == kept.spread
    assert problem.ranks[0].quota_bytes == machine.total_bytes - sum(terms(problem).values())
    assert ("CUDA context (estimated)" in terms(problem)) is (machine.platform == "cuda")


def test_the_limit_of_the_gpu_may_be_said() -> None:
    """--total is then what Metal or the driver reports; nothing lies beyond it."""
    problem = built("llama.cpp", "apple64gb", "--ctx-size", "4096", total="56GiB")
    assert not [term for term in terms(problem) if "reach" in term]
    gb10 = built("llama.cpp", "gb10", "--ctx-size", "4096", total="119GiB")
    assert f"{SYSTEM} (estimated)" in terms(gb10)  # its driver counts the system's in


def test_one_tensor_has_at_most_a_buffer() -> None:
    """4 GiB of a layer's keys: 8 heads x 128 x 2 B a cell."""
    pool = built("llama.cpp", "apple8gb", "--ctx-size", "4096").pools[0]
    assert pool.max_blocks == 4 * GIB // (256 * 2048)
    assert built("llama.cpp", "gb10", "--ctx-size", "4096").pools[0].max_blocks is None
    strix = built("llama.cpp", "strix halo", "--ctx-size", "4096").pools[0]
    assert strix.max_blocks == (2**32 - 4) // (256 * 2048)


def test_vllm_leaves_the_system_what_is_not_its_share() -> None:
    machine = MACHINES["GB10"]
    kept, total = machine.estimate.bytes, machine.total_bytes
    low = built("vllm", "gb10", "--gpu-memory-utilization", "0.8")
    assert f"{SYSTEM} (estimated)" not in terms(low)  # 0.2 of the total is more than it keeps
    high = built("vllm", "gb10", "--gpu-memory-utilization", "0.92")
    charged = terms(high)[f"{SYSTEM} (estimated)"]
    assert charged == kept - (total - total * 92 // 100)


def test_vllm_says_which_utilization_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Qwen3-8B"]))
    done = run_kvplan(capsys, "model", str(path), "--gpu", "gb10", "--weights-gib", "16")
    assert "vLLM starts where --gpu-memory-utilization x total is free: at most 0.85\n" in done.out
    assert plan(Problem.parse(done.out)).blocks["paged"] > 0


def test_sglang_reads_what_the_system_left() -> None:
    problem = built("sglang", "gb10", "--mem-fraction-static", "0.8")
    share = -(-MACHINES["GB10"].estimate.bytes * 4 // 5)
    assert terms(problem)[f"{SYSTEM} (estimated)"] == share


def test_tensorrt_llm_has_a_share_of_the_rest() -> None:
    near, far = (built("tensorrt-llm", gpu, total="121.69GiB") for gpu in ("gb10", "h200"))
    kept = MACHINES["GB10"].estimate.bytes
    lost = far.ranks[0].quota_bytes - near.ranks[0].quota_bytes
    assert abs(lost - kept * 9 // 10) <= 64 * MIB  # a granule


def test_strix_halo_reports_what_it_reaches() -> None:
    """63,968 MiB by default: antirez/ds4 #475."""
    memory = built("vllm", "strix halo").ranks[0].memory
    assert memory is not None
    assert memory.total is not None
    assert abs(memory.total - 63_968 * MIB) < GIB // 50
    assert memory.ranges["total"] == "62.47 GiB to 96.00 GiB"
    assert chip_of("strix halo").is_amd


@pytest.mark.parametrize(
    ("engine", "gpu"),
    [
        ("vllm", "apple64gb"),
        ("sglang", "m2 ultra 192gb"),
        ("tensorrt-llm", "strix"),
        ("atom", "gb10"),
    ],
)
def test_an_engine_that_does_not_run_there(engine: str, gpu: str) -> None:
    with pytest.raises(InvalidProblem, match="--gpu: expected a card of this engine"):
        built(engine, gpu)


def test_there_is_nothing_to_place_in_one_memory() -> None:
    adapter = engine_named("llama.cpp")
    settings = typed_settings(adapter, ("--ctx-size", "4096"), Budget("gb10", None, None))
    weights = Weights({"token_embd.weight": 1}, 1, "gguf")
    with pytest.raises(InvalidProblem, match="--optimize: expected cards apart from the host"):
        placement_problem(MODEL, settings.weighed(weights, MODEL))


def test_a_chip_without_its_ram_is_asked_for_it() -> None:
    with pytest.raises(InvalidProblem, match="expected its RAM as well, such as 'M4 Max 64GB'"):
        card_named("M4 Max")
    assert card_named("M4 Max 64GB") == "Apple 64GB"


@pytest.mark.parametrize("name", ["H100-80GB-MIG-1g.10gb", "H100-80GB MIG", "h100 1g.10gb"])
def test_a_slice_of_a_card_is_not_taken_for_the_card(name: str) -> None:
    with pytest.raises(InvalidProblem, match="a MIG slice leave it out and give --total, got"):
        total_bytes(name)
