"""Requests that use some of the caches: two models, or a target and its draft, on one device."""

from __future__ import annotations

from typing import Any

from kvplan.models import Problem
from kvplan.solver import need, plan
from kvplan.solver.sweep.by_name import fit
from support.micro import micro
from support.solvers import agreed

POOLS = [{"name": "A", "bytes": 10}, {"name": "B", "bytes": 10}]
CACHES = [{"name": name, "pool": name, "kind": "full"} for name in "AB"]


def two_models(*requests: dict[str, Any], quota: int = 100, **sections: Any) -> Problem:
    """Blocks of 4 tokens and 10 bytes in two pools, a cache each."""
    batches = [{"name": "both", "requests": requests}]
    return micro(quota, **{"pools": POOLS, "caches": CACHES, "batches": batches, **sections})


def on(*caches: str, **fields: Any) -> dict[str, Any]:
    return {"name": "on " + "".join(caches), "caches": list(caches), **fields}


def test_two_models_on_one_card() -> None:
    """ovg-project/kvcached#210: 39.4 GiB x 0.9, two of 16.43 GiB and 32,768 tokens each."""
    other = {"weights A": "16.43GiB", "weights B": "16.43GiB"}
    problem = Problem.model_validate(
        {
            "ranks": [
                {
                    "name": "card",
                    "memory": {"total": "39.4GiB", "utilization": 0.9, "other": other},
                }
            ],
            "pools": [{"name": "A", "bytes": 655360}, {"name": "B", "bytes": 655360}],
            "caches": CACHES,
            "batches": [
                {
                    "name": "both",
                    "requests": [on("A", capacity=32768), on("B", capacity=32768)],
                }
            ],
        }
    )
    answer = agreed(problem)
    assert answer.floors == {"A": 2048, "B": 2048}
    assert answer.blocks == {"A": 2211, "B": 2048}  # the default fill raises the first pool


def test_each_request_counts_in_its_caches_alone() -> None:
    answer = agreed(two_models(on("A", capacity=12), on("B", capacity=4), {"capacity": 8}))
    assert answer.floors == {"A": 3 + 2, "B": 1 + 2}
    (batch,) = need(two_models(on("A", capacity=12, count=2))).asked.batches
    assert batch.requests[0].blocks == {"A": 3, "B": 0}
    assert (batch.raw, batch.shared) == ({"A": 6, "B": 0}, {"A": 0, "B": 0})


def test_fitted_requests_share_what_their_caches_leave() -> None:
    """Ten blocks: as long a context as fits on A, then on B beside the two that B needs."""
    fields = {"capacity": 100, "fit": "capacity", "min_capacity": 8}
    answer = agreed(two_models(on("A", **fields), on("B", **fields)))
    assert [each.capacity for each in answer.requests] == [32, 8]
    counted = agreed(two_models(on("B", capacity=8, fit="count"), on("A", capacity=12)))
    assert [each.count for each in counted.requests] == [3, 1]


def test_states_and_flights_are_held_in_used_caches_alone() -> None:
    caches = [
        {"name": "state", "pool": "A", "kind": "state"},
        {
            "name": "flight",
            "pool": "B",
            "kind": "chunked",
            "chunk": 8,
            "in_flight": 8,
            "in_flight_per": "batch",
        },
    ]
    slots = two_models(on("state", capacity=0, count=3), caches=caches)
    assert agreed(slots).floors == {"A": 3, "B": 0}
    both = two_models(on("state", capacity=40), on("flight", capacity=40), caches=caches)
    assert agreed(both).floors == {"A": 1, "B": 2 + 2}


def test_all_caches_named_is_none_named() -> None:
    named = plan(two_models(on("A", "B", capacity=12)))
    assert named.digest == plan(two_models({"name": "on AB", "capacity": 12})).digest


def test_a_sweep_solves_them_one_by_one() -> None:
    problem = two_models(on("A", capacity=100, fit="capacity"), on("B", capacity=8))
    found = fit(problem, {"quota": [40, 60, 80], "capacity:on B": [8, 4, 12]})
    assert found.capacities[:, 0].tolist() == [8, 20, 20]
    assert found.blocks.tolist() == [[2, 2], [5, 1], [5, 3]]
    (note,) = found.notes
    assert "does not support requests of some caches only (batch both)" in note
