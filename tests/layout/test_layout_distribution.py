"""The engine's rule over the best layout, on the layouts that vLLM's own code was run on."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.models.engines.vllm.pool_problem import blocks_of_request
from kvplan.solver.layout import layout
from kvplan.solver.layout.read import asked_of_server
from support.vllm import Case, cases

CASES = {name: case for name, case in cases().items() if case.answer.get("refused") != "groups"}
HYBRID = ("latent", "recurrent", "windows", "chunked")


def ratio(case: Case) -> Fraction:
    asked = asked_of_server(case.server, "")
    found = layout(asked.question, engine=asked.engine, freedom=False)
    assert found.engine is not None
    server = case.server
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
