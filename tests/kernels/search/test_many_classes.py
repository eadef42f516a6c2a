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


@pytest.mark.parametrize("seed", range(60))
def test_a_prefix_scratch_and_an_open_peer_change_nothing_of_that(seed: int) -> None:
    """The peer's least needs are several, and the prefix goes stale for both requests at once."""
    rng = random.Random(seed)
    data = problem(rng).model_dump(mode="json", exclude_none=True)
    for cache in data["caches"]:
        if cache["kind"] == "window" and rng.random() < 0.6:
            cache["scratch"] = {"fraction": rng.choice(["1/4", "1/2"]), "max_rewind": 7}
    (batch,) = data["batches"]
    least = rng.randint(40, 45)
    batch["shared_prefix"] = rng.randint(1, 20)
    long, peer = batch["requests"]
    long["history"] = long["capacity"] - rng.choice((1, 5, 20))
    batch["requests"][1] = {**peer, "history": 48, "fit": "capacity", "min_capacity": least}
    search = Search(formulate(Problem.model_validate(data)).instance)
    (bounds,) = search.starts()
    assert search.largest(bounds, CAPACITY) == Points(search.instance).largest(bounds, CAPACITY)


def test_a_class_that_cannot_do_better_costs_one_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two windows of 1,584 and 1,600 tokens a block: 198 classes, a period of 158,400 tokens."""
    asked = []
    plain = Moving._evaluate
    monkeypatch.setattr(Moving, "_evaluate", lambda s, v, *by: asked.append(v) or plain(s, v, *by))
    caches = [*windows(1584, 5000), {**windows(1600, 9000)[0], "name": "other"}]
    caches.append({"name": "f", "kind": "full", "tokens_per_block": 32})
    search = search_of(micro(400_000, caches=caches, **one(2**21, fit="capacity")))
    (bounds,) = search.starts()
    found = search.largest(bounds, CAPACITY)
    assert found is not None
    assert found < 2**21
    classes = len(Residues(search.instance, 0).classes)
    assert len(asked) < 2 * classes + 60


@pytest.mark.parametrize("scratch", [None, {"fraction": "1/4", "max_rewind": 7}])
@pytest.mark.parametrize("with_full", [True, False])
def test_two_capacities_under_one_prefix_with_coprime_blocks(
    scratch: Any, with_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A period of 66,929 tokens: not each of its classes is tried for each need of the other."""
    asked = []
    plain = Moving._evaluate
    monkeypatch.setattr(Moving, "_evaluate", lambda s, v, *by: asked.append(v) or plain(s, v, *by))
    caches = [
        {**windows(tokens, window)[0], "name": f"w{tokens}", "scratch": scratch}
        for tokens, window in ((127, 8191), (17, 300), (31, 5000))
    ]
    if with_full:
        caches.append({"name": "f", "kind": "full", "tokens_per_block": 16})
    fitted = [
        {"name": name, "capacity": capacity, "fit": "capacity"}
        for name, capacity in (("q", 400_000), ("z", 50_000))
    ]
    batch = {"name": "b", "shared_prefix": 999, "requests": fitted}
    search = search_of(micro(10_000 if with_full else 3020, caches=caches, batches=[batch]))
    (bounds,) = search.starts()
    found = search.largest(bounds, CAPACITY)
    assert found is not None
    settled = search.settled(bounds, CAPACITY, found)
    assert search.possible(settled)
    assert len(asked) < 1000
