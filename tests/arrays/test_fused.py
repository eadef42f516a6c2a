"""The fused Triton kernel, interpreted or on a device, gives what the scalar search gives."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.kernels.arrays import RefusedError, Scenarios
from kvplan.kernels.arrays.scalar import one_by_one
from kvplan.models import InvalidProblem, Problem
from support.cases import ORDERED, load
from support.instance import instance_of, windows
from support.instances import small_problem
from support.micro import micro, one
from support.scenarios import assert_equal, by_torch, by_triton, drawn, for_kernel, quotas_around


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_every_decision_is_the_scalar_search_s(seed: int) -> None:
    try:
        instance = instance_of(small_problem(seed, constraints=False, weighted=False))
        scenarios = for_kernel(drawn(instance, seed))
        found = by_triton(instance, scenarios)
    except (InvalidProblem, RefusedError):
        return
    assert_equal(found, one_by_one(instance, scenarios))


@pytest.mark.parametrize("name", ORDERED)
def test_shipped_cases_at_other_quotas(name: str) -> None:
    instance = instance_of(load(name))
    quotas = quotas_around(instance, np.random.default_rng(7), 6)
    scenarios = Scenarios(1 if quotas is None else len(quotas), quotas)
    found = by_triton(instance, scenarios)
    assert_equal(found, one_by_one(instance, scenarios))
    assert_equal(found, by_torch(instance, scenarios))


def mixed(*block_tokens: int) -> Problem:
    """One cache a block size, the first a live window, and a request that may shrink."""
    caches = windows(block_tokens[0], 3 * block_tokens[0] + 1)
    for t in block_tokens:
        caches.append({"name": f"full{t}", "pool": "p", "kind": "full", "tokens_per_block": t})
    return micro(10_000, caches=caches, **one(2**20, fit="capacity", min_capacity=3171))


@pytest.mark.parametrize("sizes", [(16, 64), (1584, 1600)], ids=["16 with 64", "1584 with 1600"])
def test_caches_of_several_block_sizes(sizes: tuple[int, ...]) -> None:
    instance = instance_of(mixed(*sizes))
    quotas = np.concatenate([np.random.default_rng(3).integers(0, 400_000, 28), [0, 1, 2**44, 7]])
    scenarios = Scenarios(32, quotas[:, None])
    assert_equal(by_triton(instance, scenarios), one_by_one(instance, scenarios))


def test_a_need_that_falls_as_the_capacity_grows() -> None:
    request = {"capacity": 500, "count": 4, "fit": "capacity", "min_capacity": 97}
    batches = [{"name": "b", "requests": [request]}]
    instance = instance_of(micro(caches=windows(32, 64), batches=batches))
    found = by_triton(instance, Scenarios(4, np.array([[79], [80], [119], [120]])))
    assert found.capacities[:, 0].tolist() == [0, 480, 480, 500]


@pytest.mark.parametrize("number", [0, 1])
def test_no_scenario_and_one(number: int) -> None:
    instance = instance_of(load("strata_plan"))
    scenarios = Scenarios(number)
    assert_equal(by_triton(instance, scenarios), one_by_one(instance, scenarios))


def test_a_million_scenarios() -> None:
    """Rooms, capacities and counts vary; held against tensors of the same search."""
    instance = instance_of(micro(**one(400, fit="capacity", count=2)))
    random = np.random.default_rng(9)
    number = 10**6
    scenarios = Scenarios(
        number,
        random.integers(0, 4000, (number, 1)),
        {0: random.integers(1, 500, number)},
        {0: random.integers(1, 9, number)},
    )
    found = by_triton(instance, scenarios)
    assert_equal(found, by_torch(instance, scenarios))
    at = random.integers(0, number, 50)
    picked = Scenarios(
        50,
        scenarios.quotas[at],
        {0: scenarios.capacities[0][at]},
        {0: scenarios.counts[0][at]},
    )
    assert_equal(found.mapped(lambda array: array[at]), one_by_one(instance, picked))


def test_what_the_kernel_leaves_to_the_arrays_is_named() -> None:
    caches = [*windows(37, 60), {**windows(41, 60)[0], "name": "other"}]
    request = {"capacity": 2000, "fit": "capacity"}
    batches = [{"name": "b", "requests": [request, {**request, "capacity": 900}]}]
    instance = instance_of(micro(caches=caches, batches=batches))
    with pytest.raises(RefusedError, match="lanes a scenario"):
        by_triton(instance, Scenarios(1))
    small = instance_of(micro(**one(20)))
    with pytest.raises(RefusedError, match="utilizations"):
        by_triton(small, Scenarios(1, use=([[1]], [[1]])))


def test_other_quotas_are_no_other_kernel() -> None:
    """What follows from the quotas is read from tables: the kernel is compiled once for a shape."""
    from kvplan.kernels.triton.launch import Launch

    specs = set()
    for quota in (300, 3000, 7001):
        requests = one(33, count=2) | {"fill": {"batch": "b"}}
        launch = Launch(instance_of(micro(quota, caches=windows(9, 30), **requests)), "cpu")
        limits = launch.batch.layout.limits(launch.arrays, None)
        spec, _ = launch.spec(launch.columns(Scenarios(1), limits), quota)
        specs.add(spec)
    assert len(specs) == 1
