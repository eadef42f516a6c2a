"""A model as large as any: 128 layers, eight cards, 384 experts of a layer, eight classes."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.solver import plan

MIB, GIB = 2**20, 2**30
CARDS = [f"gpu{at}" for at in range(8)]
GUARD_S = 60  # wall; 0.2 to 2 s on one idle core


def mixture(unit: str, shares: range) -> dict[str, Any]:
    """Eight runs of 16 layers; experts one by one have a share of the tokens each."""
    draw, layers = random.Random(1), []
    for run in range(8):
        size = (8 + run % 3) * MIB
        layer: dict[str, Any] = {"count": 16, "dense": 300 * MIB, "cache": "full"}
        if unit == "expert":
            layer |= {"experts": [size] * 384}
            layer |= {"frequency": [f"{draw.choice(shares)}/1000" for _ in range(384)]}
        else:
            layer |= {"experts": [384 * size] * 3, "active": f"{8 + run}/384"}
        layers.append(layer)
    read = dict(zip(CARDS, (936, 360, 1008) * 3, strict=False))
    return {
        "ranks": [
            *({"name": name, "quota": (24 + 8 * (at % 3)) * GIB} for at, name in enumerate(CARDS)),
            {"name": "host", "quota": 2**41},
        ],
        "pools": [{"name": "kv", "bytes": 65_536}],
        "caches": [{"name": "full", "kind": "full"}],
        "batches": [{"name": "b", "requests": [{"name": "r", "capacity": 32_768}]}],
        "place": {
            "order": ["host", *CARDS],
            "host": "host",
            "layers": layers,
            "unit": unit,
            "ends": {"last": {"bytes": 500 * MIB}},
            "used": {name: {"base": 600 * MIB, "per_token": 1024} for name in CARDS},
            "read": {**{name: f"{rate}GB/s" for name, rate in read.items()}, "host": "60GB/s"},
        },
        "goals": ["speed"],
        "fill": "none",
    }


@pytest.mark.parametrize(
    ("unit", "shares"),
    [("tensor", range(0)), ("expert", range(1, 9)), ("expert", range(1, 1000))],
)
def test_a_large_mixture_is_proven(unit: str, shares: range) -> None:
    start = time.monotonic()
    answer = plan(Problem.model_validate(mixture(unit, shares)))
    assert answer.placement is not None
    assert answer.placement.proven
    assert time.monotonic() - start < GUARD_S
