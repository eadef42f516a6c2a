"""The engine's rule over the best layout, on the layouts that vLLM's own code was run on."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.models.engines.vllm.adapter import Server
from kvplan.models.engines.vllm.dump import server_of_dump
from kvplan.models.engines.vllm.pool_problem import blocks_of_request
from kvplan.models.layouts import LayoutAnswer
from kvplan.solver.layout import layout
from kvplan.solver.layout.read import asked_of_server
from support.hybrids import (
    attention,
    best_packed,
    best_uniform,
    hybrid,
    served,
    states_beside,
)
from support.vllm import Case, cases

CASES = {name: case for name, case in cases().items() if case.answer.get("refused") != "groups"}
HYBRID = ("latent", "recurrent", "windows", "chunked")


def compared(server: Server) -> LayoutAnswer:
    """The best layout of a server beside vLLM's own."""
    asked = asked_of_server(server, "")
    return layout(asked.question, engine=asked.engine, freedom=False)


def ratio(case: Case) -> Fraction:
    server = case.server
    found = compared(server)
    assert found.engine is not None
    needed = blocks_of_request(server.layout, server.serving, server.serving.length_tokens)
    stages = range(len(server.layout.stages))
    assert found.engine.figures.bytes == needed * max(map(server.layout.block_bytes, stages))
    assert found.figures.bytes == found.proof.bound >= found.proof.floor_bytes
    return found.engine.ratio


def ratios(version: str) -> list[Fraction]:
    return sorted(
        ratio(case)
        for name, case in CASES.items()
        if name.endswith(f" {version}") and name.startswith(HYBRID)
    )


def quantile(values: list[Fraction], share: Fraction) -> Fraction:
    """Linear between the two nearest ranks."""
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


@pytest.mark.parametrize(
    ("version", "expected", "largest"),
    [
        ("0.33.0", ("1.002", "1.025", "1.114", "1.271"), "1.313"),
        ("0.33.0/BLHNC", ("1.003", "1.043", "1.124", "1.331"), "1.742"),
    ],
)
def test_the_engine_is_never_better_and_how_much_worse(
    version: str, expected: tuple[str, ...], largest: str
) -> None:
    found = ratios(version)
    assert len(found) == 87
    assert found[0] == 1
    shares = (Fraction(1, 2), Fraction(3, 4), Fraction(9, 10), Fraction(99, 100))
    rounded = [f"{float(quantile(found, share)):.3f}" for share in shares]
    assert rounded == list(expected)
    assert f"{float(found[-1]):.3f}" == largest


@pytest.mark.parametrize("version", ["0.25.1", "0.19.0"])
def test_older_rules_are_never_better(version: str) -> None:
    assert ratios(version)[0] >= 1


VERSIONS = {"0.33.0": best_uniform, "0.33.0/BLHNC": best_packed}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_best_is_that_of_a_brute_force_by_the_bare_rules(version: str) -> None:
    """Sixty random hybrids: every page with every width, and every block of several pages."""
    over = []
    for seed in range(60):
        asked = hybrid(seed)
        found = compared(server_of_dump(asked.data, version))
        assert found.engine is not None
        assert found.figures.bytes == VERSIONS[version](asked), seed
        over.append(found.engine.ratio)
    assert min(over) >= 1
    assert max(over) > 2  # drafts whose page does not divide that of the states


def test_a_draft_whose_page_does_not_divide_costs_the_engine_most() -> None:
    """30 GDN layers, 10 full ones and a draft layer of 16 tokens a block in pages of 2.2 MB.

    Each of the 41 groups of one layer, the draft's 16 tokens take a whole page: 2.86 times the
    bytes of the best; side by side in a block of all layers they take 20.8 times.
    """
    state = states_beside(1, 256, 65, 100, 0)
    specs = {
        "state": state,
        "full": attention("full", 1, 256, "bfloat16", state["block_size"]),
        "draft": attention("window", 8, 128, "bfloat16", 16, window=1024),
    }
    counts = {"state": 30, "full": 10, "draft": 1}
    asked = served(specs, counts, 8192, 2048, asynchronous=True)
    found = {version: compared(server_of_dump(asked.data, version)) for version in VERSIONS}
    ratios = {version: each.engine and each.engine.ratio for version, each in found.items()}
    assert [f"{float(ratio or 0):.2f}" for ratio in ratios.values()] == ["2.86", "20.81"]
    uniform = found["0.33.0"]
    assert uniform.engine is not None
    assert uniform.engine.figures.groups == 41
    assert uniform.engine.figures.buckets[2].block_tokens == 16
    assert uniform.figures.buckets[2].block_tokens > 16
