"""Least needs of open capacities against all of them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvplan.kernels.demand import Demand
from kvplan.kernels.search.undecided import Undecided, undominated
from kvplan.models import Problem
from support.instance import instance_of, search_of, windows
from support.instances import small_problem
from support.micro import micro
from support.points import Points

Vector = tuple[int, ...]


def undercuts(other: Vector, vector: Vector) -> bool:
    return all(map(int.__le__, other, vector))


def one_by_one(vectors: list[Vector]) -> list[int]:
    """Places of the vectors that no other one undercuts; of equal ones the first."""
    return [
        place
        for place, vector in enumerate(vectors)
        if not any(
            undercuts(other, vector) and (other != vector or before < place)
            for before, other in enumerate(vectors)
        )
    ]


@pytest.mark.parametrize("base", [0, -(2**40), 2**61, 2**62, 2**70])
@pytest.mark.parametrize("number", [0, 1, 5, 40, 300])
def test_what_no_other_vector_undercuts(number: int, base: int) -> None:
    """Few by tuples, many by arrays, and figures beyond int64 by tuples again."""
    rng = random.Random(number + base)
    for width in (1, 2, 4):
        for spread in (2, 9, 1000):
            vectors = [
                tuple(base + rng.randint(0, spread) for _ in range(width)) for _ in range(number)
            ]
            assert undominated(vectors) == one_by_one(vectors)


def assert_least(problem: Problem) -> int:
    """Some least need undercuts every point's, and each is some point's.

    Returns how many batches have several.
    """
    instance = instance_of(problem)
    points, undecided = Points(instance), Undecided(Demand(instance))
    (bounds, *_) = search_of(problem).starts()
    loads, several = list(points.loads(bounds)), 0
    for batch, needed in enumerate(instance.batches):
        if not needed.fitted:
            continue
        found = undecided.of_batch(batch, bounds)
        least = [tuple(undecided.whole(batch, each)) for each in found]
        every = {tuple(points.raw(batch, 0, load)) for load in loads}
        assert all(any(undercuts(low, need) for low in least) for need in every)
        for vector, each in zip(least, found, strict=True):
            values = dict(each.at)
            assert sorted(values) == sorted(needed.fitted)
            capacities = [values.get(i, f.least) for i, f in enumerate(instance.fitted)]
            counts = [
                values.get(i, f.least) if f.is_count else f.requests
                for i, f in enumerate(instance.fitted)
            ]
            for index, fitted in enumerate(instance.fitted):
                if fitted.is_count:
                    capacities[index] = fitted.capacity
            assert tuple(undecided.demand.raw(batch, 0, capacities, counts)) == vector
        several += len(found) > 1
    return several


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("part", range(2))
def test_least_needs_of_random_problems(part: int, prefix: bool) -> None:
    for seed in range(60 * part, 60 * part + 60):
        problem = small_problem(seed, constraints=False, prefix=prefix, choices=False)
        (bounds, *_) = search_of(problem).starts()
        spans = [40 if high is None else high - low for low, high in zip(
            bounds.low, bounds.high, strict=True
        )]  # fmt: skip
        if sum(spans) < 120:
            assert_least(problem)


def falling(prefix: int, *requests: dict[str, Any]) -> Problem:
    """Two live windows whose needs fall at different capacities, and a full cache that grows."""
    pools = [{"name": name, "bytes": 10} for name in ("p", "q", "r")]
    caches = [*windows(6, 20), {**windows(10, 33, pool="q")[0], "name": "other"}]
    caches.append({"name": "f", "pool": "r", "kind": "full", "tokens_per_block": 5})
    batch = {"name": "b", "shared_prefix": prefix, "requests": list(requests)}
    return micro(pools=pools, caches=caches, batches=[batch])


@pytest.mark.parametrize("prefix", [0, 7, 25, 41])
def test_needs_that_fall_at_different_capacities_are_all_kept(prefix: int) -> None:
    several = 0
    given = {"capacity": 70, "history": 50, "count": 3}
    for least in range(prefix + 4, prefix + 52, 5):
        shrinks = {"fit": "capacity", "min_capacity": least}
        first = {"name": "q", "capacity": 140, "history": 137, **shrinks}
        second = {"name": "s", "capacity": 115, "count": 2, **shrinks}
        several += assert_least(falling(prefix, first))
        several += assert_least(falling(prefix, first, second))
        several += assert_least(falling(prefix, first, second, given))
    assert several > 2


def test_a_request_left_out_and_one_decided() -> None:
    problem = falling(
        0,
        {"name": "q", "capacity": 90, "fit": "capacity", "min_capacity": 20},
        {"name": "s", "capacity": 75, "fit": "capacity", "min_capacity": 20},
    )
    undecided = Undecided(Demand(instance_of(problem)))
    (bounds,) = search_of(problem).starts()
    assert all([i for i, _ in each.at] == [1] for each in undecided.of_batch(0, bounds, without=0))
    fixed = bounds._replace(low=(50, 20), high=(50, 75))
    assert all(dict(each.at)[0] == 50 for each in undecided.of_batch(0, fixed))
