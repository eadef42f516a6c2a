"""koboldcpp's estimate of layers, and what a card really holds."""

from __future__ import annotations

import random

import pytest

from kvplan.models import Problem
from kvplan.models.engines.koboldcpp import EXTRA_LAYERS, auto_layers
from kvplan.solver import plan
from support.placement import public_cases

GIB = 2**30
CASE = public_cases()["LostRuins/koboldcpp#1480"]
TOTAL, USED, FILE = 24 * GIB, 16 * GIB // 10, 143 * GIB // 10
"""The report's 24, 1.6 and 14.3 "GB": a file of 15.3 x 10^9 B is 14.3 GiB."""


@pytest.mark.parametrize("context", [20480, 24576])
def test_the_estimate_as_reported(context: int) -> None:
    """43 of 43 at 20,480 tokens, 40 at 24,576: 40 layers of 8 KV heads x 128."""
    assert auto_layers(TOTAL, USED, FILE, 40, 8, 128, context) == CASE["engine"][f"ctx_{context}"]


def held_tokens(kv_per_token: int) -> int:
    """The longest context with every layer on the card."""
    figures = CASE["figures"]
    problem = Problem.model_validate(
        {
            "ranks": [{"name": "card", "quota": int(figures["free"])}],
            "tokens_per_block": 1,
            "pools": [{"name": "kv", "bytes": kv_per_token}],
            "caches": [{"name": "kv", "kind": "full"}],
            "batches": [
                {"name": "b", "requests": [{"name": "r", "capacity": 2**20, "fit": "capacity"}]}
            ],
            "consumers": [
                {"name": "weights", "bytes": int(figures["weights"])},
                {"name": "compute", "bytes": int(figures["compute"])},
            ],
        }
    )
    return plan(problem).requests[0].capacity


def test_all_layers_fit_with_twice_the_context() -> None:
    each = CASE["figures"]["kv_per_token"]
    assert held_tokens(each) == CASE["best"]["all_43_up_to_tokens"]
    assert held_tokens(each * 34 // 64) == CASE["best"]["with_q8_0_cache"]


@pytest.mark.parametrize(
    ("given", "layers"),
    [
        ((24 * GIB, 0, 8 * GIB, 32, 8, 128, 4096), 35),  # everything
        ((8 * GIB, GIB, 40 * GIB, 80, 8, 128, 8192), 8),
        ((4 * GIB, GIB, 200 * GIB, 80, 8, 128, 8192), 0),  # fewer than three are none
        ((8 * GIB, GIB, 14 * GIB, 40, 0, 128, 2048), 12),  # no heads known: 1.6 x the file
        ((8 * GIB, GIB, 14 * GIB, 40, 0, 128, 4096), 10),
        ((8 * GIB, GIB, 14 * GIB, 40, 0, 128, 4096, 1024), 8),
    ],
)
def test_the_estimate_by_hand(given: tuple[int, ...], layers: int) -> None:
    assert auto_layers(*given) == layers


def test_a_longer_context_or_batch_never_gains_layers() -> None:
    draw = random.Random(1480)
    for _ in range(300):
        total, file = draw.randrange(4, 48) * GIB, draw.randrange(2, 60) * GIB
        layers, heads = draw.randrange(16, 96), draw.choice([0, 4, 8, 32])
        given = (total, draw.randrange(0, 2 * GIB), file, layers, heads, 128)
        counts = [auto_layers(*given, context) for context in (8192, 16384, 65536)]
        assert counts == sorted(counts, reverse=True)
        assert auto_layers(*given, 8192, 2048) <= counts[0] <= layers + EXTRA_LAYERS
