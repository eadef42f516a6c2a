"""ROCm/ATOM: bytes of a block and of a state, as its logs and pull requests have them."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models.engines.atom import FLAGS, build, figures
from kvplan.models.engines.atom.entries import (
    block_bytes,
    compressor_bytes,
    entries_of_request,
    ring_bytes,
    state_bytes,
)
from kvplan.models.engines.atom.flags import kept_layers, stage_layers
from kvplan.models.engines.layers import Compressed
from kvplan.models.engines.registry import Settings
from kvplan.models.errors import InvalidProblem
from kvplan.solver import plan
from support.shapes import architecture

GIB = 2**30


def flags(**given: Any) -> Settings:
    """ATOM's flags."""
    return Settings(FLAGS, given)


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        # ROCm/ATOM#3171 start-up logs: block_bytes
        ("Meta-Llama-3.1-8B", {"tensor_parallel_size": 2, "kv_cache_dtype": "fp8"}, 540_672),
        ("Qwen3.5-27B", {}, 1_056_768),
        ("GLM-5.2", {}, 1_486_080),
        ("GLM-5.2", {"kv_cache_dtype": "fp8", "num_speculative_tokens": 3}, 778_752),
        ("DeepSeek-V4-Flash", {"kv_cache_dtype": "fp8"}, 1_063_168),
        ("DeepSeek-V4-Pro", {"kv_cache_dtype": "fp8", "index_dtype": "fp4"}, 1_399_040),
        # ROCm/ATOM#2050: 24 latent layers, blocks of 128
        ("Kimi-K3", {"kv_cache_dtype": "fp8", "block_size": 128}, 1_769_472),
    ],
)
def test_bytes_of_a_block(model: str, given: dict[str, Any], expected: int) -> None:
    assert block_bytes(architecture(model), flags(**given)) == expected


def test_a_block_of_the_last_stage_has_the_draft() -> None:
    given = flags(
        kv_cache_dtype="fp8",
        num_speculative_tokens=3,
        pipeline_parallel_size=4,
        pp_layer_partition="20,20,20,18",
    )
    glm = architecture("GLM-5.2")
    stages = stage_layers(glm, given)
    assert [len(stage) for stage in stages] == [20, 20, 20, 19]
    assert block_bytes(glm, given, stages[-1]) == 186_624
    assert sum(block_bytes(glm, given, stage) for stage in stages) == 778_752


def test_a_partition_of_other_layers_is_refused() -> None:
    given = flags(pipeline_parallel_size=2, pp_layer_partition="40,40")
    with pytest.raises(InvalidProblem, match="2 counts that sum to 78 layers"):
        stage_layers(architecture("GLM-5.2"), given)


@pytest.mark.parametrize(
    ("model", "given", "entry", "entries"),
    [
        ("Qwen3.5-27B", {}, 78_446_592, 1),  # 32 of them are the 2.34 GiB that the log lacks
        ("Kimi-K3", {"tensor_parallel_size": 8}, 56_171_520, 1),
        # ROCm/ATOM#1883: seven draft tokens, 8 states a request of 57.81 MiB
        ("Kimi-K3", {"tensor_parallel_size": 8, "num_speculative_tokens": 7}, 60_622_848, 8),
        (
            "Kimi-K3",
            {"tensor_parallel_size": 8, "num_speculative_tokens": 7, "replay_ssm": True},
            60_622_848,
            1,
        ),
        ("Meta-Llama-3.1-8B", {}, 0, 1),
    ],
)
def test_bytes_of_a_state(model: str, given: dict[str, Any], entry: int, entries: int) -> None:
    settings = flags(**given)
    assert state_bytes(architecture(model), settings) == entry
    assert entries_of_request(architecture(model), settings) == entries


@pytest.mark.parametrize(
    ("model", "expected"), [("DeepSeek-V4-Flash", 12_206_080), ("DeepSeek-V4-Pro", 18_710_528)]
)
def test_bytes_of_the_compressors(model: str, expected: int) -> None:
    """ROCm/ATOM#1164 charges 17.85 GiB for 1024 slots of V4-Pro: 17.84 MiB each, and rounding."""
    assert compressor_bytes(kept_layers(architecture(model), flags())) == expected


def test_bytes_of_the_window_ring() -> None:
    """V4-Flash-DSpark keeps 131 rows of 46 layers a request: 0.92 GiB for 256 requests."""
    layers = [Compressed(index, 128, 448, 64, 0) for index in range(46)]
    ring = ring_bytes(layers, flags(kv_cache_dtype="fp8", num_speculative_tokens=3))
    assert ring == 131 * 46 * 640
    assert 256 * ring * 100 // GIB == 91


def test_a_state_is_whole_rows_and_a_ring() -> None:
    given = flags(kv_cache_dtype="fp8", num_speculative_tokens=0)
    pro = architecture("DeepSeek-V4-Pro")
    ring = 61 * 128 * 640
    assert state_bytes(pro, given) == -(-18_710_528 // 640) * 640 + ring


@pytest.mark.parametrize(
    ("sequences", "gib", "blocks"),
    [(64, "57.70", 32_980), (512, "57.73", 18_780), (64, "56.40", 32_192)],
)
def test_kimi_k3_states_first_then_blocks(sequences: int, gib: str, blocks: int) -> None:
    """Start-up logs of Kimi-K3 on MI355X: what the printed bytes can hold is what is logged."""
    low, high = (_plan_of(sequences, bytes_) for bytes_ in _printed(gib))
    assert low <= blocks <= high
    assert high - low <= 2 * 2**30 // 100 // 1_769_472


GLM_FP8 = {"kv_cache_dtype": "fp8", "num_speculative_tokens": 3}
GLM_STAGES = {"pipeline_parallel_size": 4, "pp_layer_partition": "20,20,20,18"}


@pytest.mark.parametrize(
    ("model", "gib", "blocks", "given"),
    [
        # ROCm/ATOM#3171 and logs of its users; the pipeline's blocks follow from its last stage
        ("Meta-Llama-3.1-8B", "54.23", 107_703, {"tensor_parallel_size": 2} | GLM_FP8),
        ("GLM-5.2", "41.39", 29_905, {}),
        ("GLM-5.2", "40.76", 29_453, {}),
        ("GLM-5.2", "147.31", 203_105, GLM_FP8),
        ("GLM-5.2", "147.06", 202_760, GLM_FP8),
        ("Qwen3.5-27B", "113.24", 77_049, {"max_num_seqs": 512}),
    ],
)
def test_logged_blocks_fit_the_logged_bytes(
    model: str, gib: str, blocks: int, given: dict[str, Any]
) -> None:
    known, counts = architecture(model), []
    for bytes_ in _printed(gib):
        problem = build(known, flags(**given, available=(bytes_,)))
        counts.append(plan(problem).blocks["paged"])
    assert counts[0] <= blocks <= counts[1]


def test_blocks_of_a_pipeline_are_those_of_its_tightest_stage() -> None:
    """GLM-5.2-MXFP4 prefill, TP1 x PP4: 104.05 GiB on the last stage, 598,675 blocks on all."""
    counts = []
    for last in _printed("104.05"):
        given = flags(**GLM_FP8, **GLM_STAGES, available=(2**40, 2**40, 2**40, last))
        counts.append(plan(build(architecture("GLM-5.2"), given)).blocks["paged"])
    assert counts[0] <= 598_675 <= counts[1]


def _plan_of(sequences: int, available: int) -> int:
    given = flags(
        kv_cache_dtype="fp8",
        block_size=128,
        tensor_parallel_size=8,
        max_num_seqs=sequences,
        available=(available,),
    )
    kimi = architecture("Kimi-K3")
    problem = build(kimi, given)
    answer = plan(problem)
    assert answer.blocks["state"] == sequences
    assert figures(kimi, given, problem, answer)["num_kvcache_blocks"] == str(
        answer.blocks["paged"]
    )
    return answer.blocks["paged"]


def _printed(gib: str) -> tuple[int, int]:
    """Least and most bytes that print as so many GiB."""
    hundredths = int(gib.replace(".", ""))
    return (2 * hundredths - 1) * GIB // 200 + 1, (2 * hundredths + 1) * GIB // 200


def test_the_smallest_rank_rules() -> None:
    """GLM-5.2 TP8 logs (ROCm/ATOM#3171): 40.76 to 41.39 GiB on the ranks, 29453 blocks at least."""
    available = tuple(count * 1_486_080 + 5 for count in (29905, 29453, 29609))
    problem = build(architecture("GLM-5.2"), flags(available=available))
    assert plan(problem).blocks == {"paged": 29453}


def test_readings_make_the_budget() -> None:
    """Llama-3-8B TP2, first log of ROCm/ATOM#3171: 54.23 GiB of 287.98 at utilization 0.3."""
    hundredth = GIB // 100
    given = flags(
        total_bytes=28798 * hundredth,
        free=26274 * hundredth,
        peak_torch=1067 * hundredth,
        non_torch=1554 * hundredth,
        graphs=19 * hundredth,
        gpu_memory_utilization="0.3",
        tensor_parallel_size=2,
        kv_cache_dtype="fp8",
    )
    llama = architecture("Meta-Llama-3.1-8B")
    problem = build(llama, given)
    printed = figures(llama, given, problem, plan(problem))
    assert printed["available_for_kv"] == "54.23GB"
    assert abs(int(printed["num_kvcache_blocks"]) - 107_703) <= 20


def test_the_capacity_table_counts_slots_and_blocks() -> None:
    given = flags(available=(2**36,), max_num_seqs=64, max_model_len=100_000)
    qwen = architecture("Qwen3.5-27B")
    problem = build(qwen, given)
    answer = plan(problem)
    printed = figures(qwen, given, problem, answer)
    assert printed["max_concurrent at 10%"] == str(min(64, answer.blocks["paged"] // 625))
    assert printed["max_concurrent at 100%"] == str(min(64, answer.blocks["paged"] // 6250))


def test_no_budget_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="--available, or --gpu"):
        build(architecture("Meta-Llama-3.1-8B"), flags())
