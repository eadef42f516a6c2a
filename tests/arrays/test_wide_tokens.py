"""Capacities near 2^63: no solver wraps around where their blocks are few."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.solver import plan
from kvplan.solver.sweep.by_name import fit

MOST = 2**63 - 1
FULL = {"name": "c", "kind": "full"}
WINDOW = {"name": "c", "kind": "window", "window": 1000}


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("kernel", ["arrays", "triton"])
@pytest.mark.parametrize("flight", [0, 1])
@pytest.mark.parametrize(
    "cache", [FULL, WINDOW, {**WINDOW, "keep": "live"}, {**WINDOW, "keep": "in_flight"}]
)
def test_as_plan_has_it(cache: dict[str, Any], flight: int, kernel: Any, device: Any) -> None:
    if device is not None:
        pytest.importorskip("torch", reason="torch is not installed")
        pytest.importorskip("triton", reason="triton is not installed")
    request = {"name": "q", "capacity": MOST, "history": MOST - flight, "fit": "capacity"}
    data = {
        "ranks": [{"name": "a", "quota": 2**40}],
        "tokens_per_block": 1024,
        "pools": [{"name": "p", "bytes": 64}],
        "caches": [cache],
        "batches": [{"name": "b", "requests": [request]}],
    }
    problem = Problem.model_validate(data)
    answer = plan(problem)
    sweep = fit(problem, {"quota": [2**40]}, device=device, kernel=kernel)
    assert sweep.capacities.tolist() == [[answer.requests[0].capacity]]
    assert sweep.blocks.tolist() == [[answer.blocks["p"]]]
    if device is not None:
        other = plan(problem, solver="bisect", device=device, kernel=kernel)
        assert other.digest == answer.digest
