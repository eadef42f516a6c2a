"""Terms that nobody measured: a range in the title, in the list and in every budget row."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import engine_named
from kvplan.models.engines.sglang.reserve import graphs_mib
from kvplan.solver import plan
from support.vllm_server import CONFIGS

GIB = 2**30
CARD = {"gpu": "H100-80GB", "total_bytes": 79 * GIB, "total_is_estimated": True}
CARD |= {"weights_bytes": 8 * GIB}
TERMS = {
    "vllm": ("total", "activation", "non-torch", "graphs"),
    "sglang": ("total", "context", "activations and graphs"),
    "tensorrt-llm": ("total", "activation, NCCL and graphs"),
    "atom": ("total", "weights (estimated peak)"),
}


def built(engine: str, *flags: str, **common: Any) -> tuple[Any, Any]:
    adapter, known = engine_named(engine), read_architecture(CONFIGS["Meta-Llama-3.1-8B"])
    settings = read_settings(adapter.FLAGS, flags, {**CARD, **common})
    return adapter.build(known, settings), adapter.assumptions(known, settings)


@pytest.mark.parametrize("engine", TERMS)
def test_every_estimated_row_has_its_range(engine: str) -> None:
    problem, lines = built(engine)
    for term in TERMS[engine]:
        assert f"{term} (" in problem.name
        assert sum(line.startswith(f"{term}: ") for line in lines) == 1
    (rank,) = plan(problem).ranks
    rows = {line.consumer: line for line in rank.ledger if line.source == "estimated"}
    for term in TERMS[engine]:
        row = rows.get(f"{term} (estimated)") or rows[term]
        assert " to " in row.note, row


def test_readings_leave_nothing_to_estimate() -> None:
    measured = {
        "sglang": ("--free-before-load", "78GiB", "--free-after-load", "60GiB"),
        "tensorrt-llm": ("--free", "60GiB"),
        "atom": ("--available", "50GiB"),
    }
    for engine, flags in measured.items():
        share = ("--mem-fraction-static", "0.8") if engine == "sglang" else ()
        assert "estimated" not in built(engine, *flags, *share)[0].name
    problem, _ = built("sglang", *measured["sglang"])
    assert problem.name.endswith("estimated: activations and graphs (12.63 GiB to 14.63 GiB)")


def test_sglang_counts_nccl_with_several_ranks() -> None:
    rows = {}
    for ranks in ("1", "8"):
        memory = built("sglang", "--tp-size", ranks)[0].ranks[0].memory
        rows[ranks] = memory.other["context (estimated)"], memory.ranges["context (estimated)"]
    assert rows["1"] == (600 * 2**20, "400.00 MiB to 800.00 MiB")
    assert rows["8"] == (2 * GIB, "800.00 MiB to 3.13 GiB")


@pytest.mark.parametrize(
    ("gib", "ranks", "flags", "mib"),
    [
        (16, 1, {}, 16 + 1536),  # reserve_for_graph_mb of 0.5.23: 2 MiB a request, 1.5 GiB
        (24, 4, {}, 320 + 1536),
        (80, 2, {}, 512 + 1536),
        (80, 4, {}, 1024 + 1536),
        (80, 8, {"enable_dp_attention": True, "dp_size": 8}, 1024 + 512 * 8 * 9 // 2 + 1536),
        (180, 1, {}, 1024 + 1536),
    ],
)
def test_graphs_add_at_most_what_the_engine_reserves(
    gib: int, ranks: int, flags: dict[str, Any], mib: int
) -> None:
    settings = {"tp_size": ranks, "enable_dp_attention": False, "dp_size": 1} | flags
    assert graphs_mib(gib * GIB, settings) == mib


def test_an_image_encoder_lowers_the_default_share() -> None:
    adapter, known = engine_named("sglang"), read_architecture(CONFIGS["gemma-3-4b-it"])
    said = "the default falls by 0 to 24 % with the size of an image encoder"
    for flags, told in (((), True), (("--mem-fraction-static", "0.8"), False)):
        lines = adapter.assumptions(known, read_settings(adapter.FLAGS, flags, CARD))
        assert any(said in line for line in lines) == told
