"""Windows with many block sizes: monotone bounds leave a short range, and the answer is exact."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvplan.kernels import capacity as grids
from kvplan.kernels.instance import Variable
from kvplan.kernels.search.search import Search
from kvplan.models import Problem
from kvplan.solver.formulate.formulation import formulate


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
def test_bounded_search_equals_every_token(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "MANY_CLASSES", 0)
    search = Search(formulate(problem(random.Random(seed))).instance)
    search._ladders[0] = False
    (bounds,) = search.starts()
    high = bounds.high[0]
    assert high is not None
    every = range(bounds.low[0], high + 1)
    fitting = [c for c in every if search.fits(bounds, search.corner(bounds, (c,)))]
    assert search.largest(bounds, Variable("capacity", 0)) == max(fitting, default=None)


def test_bounds_enclose_the_need() -> None:
    for seed in range(60):
        search = Search(formulate(problem(random.Random(seed))).instance)
        below, above = search.bounded(0, 0).demand, search.bounded(0, 1).demand
        for capacity in range(search.instance.fitted[0].least, 200):
            need = search.demand.own(0, capacity, 0)
            assert all(
                low <= exact <= high
                for low, exact, high in zip(
                    below.own(0, capacity, 0), need, above.own(0, capacity, 0), strict=True
                )
            )
