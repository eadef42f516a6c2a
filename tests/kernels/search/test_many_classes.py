"""Windows with many block sizes: more classes than capacities that are looked at."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvplan.kernels.instance import Variable
from kvplan.kernels.moving import Moving
from kvplan.kernels.residues import Residues
from kvplan.kernels.search.search import Search
from kvplan.models import Problem
from kvplan.solver.formulate.formulation import formulate
from support.instance import search_of, windows
from support.micro import micro, one
from support.points import Points

CAPACITY = Variable("capacity", 0)


def problem(rng: random.Random) -> Problem:
    """Two or three live windows with block sizes that share no small period."""
    sizes = rng.sample([3, 4, 5, 7, 9, 11, 13], 3)
    pools = [{"name": f"p{i}", "bytes": rng.randint(1, 9)} for i in range(2)]
    caches: list[dict[str, Any]] = [
        {
            "name": f"w{i}",
            "pool": f"p{i % 2}",
            "kind": "window",
            "keep": "live",
            "window": rng.randint(1, 40),
            "sink": rng.choice([0, 0, 5]),
            "tokens_per_block": size,
        }
        for i, size in enumerate(sizes)
    ]
    if rng.random() < 0.5:
        caches.append({"name": "f", "pool": "p0", "kind": "full", "tokens_per_block": 6})
    capacity = rng.randint(60, 400)
    long = {"name": "r", "capacity": capacity, "history": rng.randint(1, capacity - 30)}
    peer = {"name": "s", "capacity": 50, "history": rng.randint(0, 50)}
    return Problem.model_validate(
        {
            "ranks": [{"name": "a", "quota": rng.randint(30, 500)}],
            "pools": pools,
            "caches": caches,
            "batches": [{"name": "b", "requests": [{**long, "fit": "capacity"}, peer]}],
        }
    )


@pytest.mark.parametrize("seed", range(150))
def test_the_largest_capacity_is_that_of_every_token_tried(seed: int) -> None:
    search = Search(formulate(problem(random.Random(seed))).instance)
    (bounds,) = search.starts()
    expected = Points(search.instance).largest(bounds, CAPACITY)
    assert search.largest(bounds, CAPACITY) == expected


def test_a_class_that_cannot_do_better_costs_one_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two windows of 1,584 and 1,600 tokens a block: 198 classes, a period of 158,400 tokens."""
    asked = []
    plain = Moving._evaluate
    monkeypatch.setattr(Moving, "_evaluate", lambda s, v: asked.append(v) or plain(s, v))
    caches = [*windows(1584, 5000), {**windows(1600, 9000)[0], "name": "other"}]
    caches.append({"name": "f", "kind": "full", "tokens_per_block": 32})
    search = search_of(micro(400_000, caches=caches, **one(2**21, fit="capacity")))
    (bounds,) = search.starts()
    found = search.largest(bounds, CAPACITY)
    assert found is not None
    assert found < 2**21
    classes = len(Residues(search.instance, 0).classes)
    assert len(asked) < 2 * classes + 60
