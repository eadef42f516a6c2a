"""The batched search gives what the scalar one gives, on NumPy and on torch."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels.arrays import Fits, RefusedError, Scenarios, fit
from kvplan.kernels.arrays.batch import Batch
from kvplan.kernels.arrays.scalar import one_by_one
from kvplan.kernels.instance import Instance
from kvplan.models import InvalidProblem, Problem
from kvplan.solver.sweep.by_name import fit as by_name
from support.cases import ORDERED, load
from support.instance import instance_of, windows
from support.instances import small_problem
from support.micro import micro, one
from support.scenarios import (
    Solver,
    assert_equal,
    by_numpy,
    by_torch,
    drawn,
    quotas_around,
)

WITH_TORCH = pytest.param(
    by_torch,
    marks=pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="torch is not installed"
    ),
)
SOLVERS = pytest.mark.parametrize("solver", [by_numpy, WITH_TORCH])


def drawn_instance(seed: int) -> Instance | None:
    """A small problem that the batched search takes; None where the seed gives bad input."""
    try:
        return instance_of(small_problem(seed, constraints=False, weighted=False))
    except InvalidProblem:
        return None


@SOLVERS
@given(st.integers(0, 2**32 - 1))
def test_every_decision_is_the_scalar_search_s(solver: Solver, seed: int) -> None:
    instance = drawn_instance(seed)
    if instance is not None:
        scenarios = drawn(instance, seed)
        assert_equal(solver(instance, scenarios), one_by_one(instance, scenarios))


@SOLVERS
@pytest.mark.parametrize("name", ORDERED)
def test_shipped_cases_at_other_quotas(solver: Solver, name: str) -> None:
    instance = instance_of(load(name))
    quotas = quotas_around(instance, np.random.default_rng(7), 6)
    number = 1 if quotas is None else len(quotas)
    scenarios = Scenarios(number, quotas)
    assert_equal(solver(instance, scenarios), one_by_one(instance, scenarios))


def two_windows(*block_tokens: int, capacity: int = 2**20) -> Problem:
    """A live window a block size, one full cache, and a request that may shrink."""
    caches: list[dict[str, Any]] = []
    for t in block_tokens:
        caches += windows(t, 3 * t + 1)
        caches[-1]["name"] += f"of{t}"
    caches.append({"name": "c", "pool": "p", "kind": "full", "tokens_per_block": 64})
    batch = one(capacity, fit="capacity", count=2, min_capacity=block_tokens[0] * 2 + 3)
    return micro(10_000, caches=caches, **batch)


@SOLVERS
@pytest.mark.parametrize(
    "sizes", [(16, 64), (1584, 1600), (32,)], ids=["16 with 64", "1584 with 1600", "32"]
)
def test_caches_of_several_block_sizes(solver: Solver, sizes: tuple[int, ...]) -> None:
    instance = instance_of(two_windows(*sizes))
    quotas = np.random.default_rng(3).integers(0, 400_000, (20, 1))
    capacities = np.random.default_rng(4).integers(2 * 1584 + 3, 2**20, 20)
    scenarios = Scenarios(20, quotas, {0: capacities})
    assert_equal(solver(instance, scenarios), one_by_one(instance, scenarios))


@SOLVERS
def test_a_need_that_falls_as_the_capacity_grows(solver: Solver) -> None:
    """At 97 tokens four requests hold 3 blocks each, at 128 ... 480 only 2 (TensorRT-LLM V2)."""
    request = {"capacity": 500, "count": 4, "fit": "capacity", "min_capacity": 97}
    batches = [{"name": "b", "requests": [request]}]
    instance = instance_of(micro(caches=windows(32, 64), batches=batches))
    scenarios = Scenarios(4, np.array([[79], [80], [119], [120]]))
    found = solver(instance, scenarios)
    assert found.capacities[:, 0].tolist() == [0, 480, 480, 500]
    assert_equal(found, one_by_one(instance, scenarios))


@SOLVERS
@pytest.mark.parametrize("fraction", [None, "1/4", "2/3"])
def test_sinks_and_scratch_beside_a_wide_window(solver: Solver, fraction: str | None) -> None:
    scratch = {} if fraction is None else {"scratch": {"fraction": fraction, "max_rewind": 3}}
    caches = [
        *windows(8, 20, sink=200, **scratch),
        {**windows(8, 300)[0], "name": "wide", "sink": 9},
    ]
    request = {"capacity": 2000, "history": 1600, "fit": "capacity", "min_capacity": 401}
    batches = [{"name": "b", "requests": [request, {"capacity": 50, "count": 2}]}]
    instance = instance_of(micro(caches=caches, batches=batches))
    capacities = np.random.default_rng(8).integers(401, 2000, 90)
    scenarios = Scenarios(90, np.arange(0, 1800, 20)[:, None], {0: capacities})
    assert_equal(solver(instance, scenarios), one_by_one(instance, scenarios))


@SOLVERS
def test_quotas_from_nothing_to_two_to_the_44th(solver: Solver) -> None:
    instance = instance_of(two_windows(16, 64))
    quotas = np.array([[0], [1], [2**20], [2**30 - 1], [2**40 + 3], [2**44]])
    scenarios = Scenarios(6, quotas)
    found = solver(instance, scenarios)
    assert found.feasible.tolist() == [False, False, True, True, True, True]
    assert_equal(found, one_by_one(instance, scenarios))


@SOLVERS
def test_columns_may_be_views_and_lists(solver: Solver) -> None:
    instance = instance_of(micro(**one(20, fit="capacity")))
    quotas = np.arange(100)[::-3, None]
    quotas.flags.writeable = False
    expected = one_by_one(instance, Scenarios(len(quotas), quotas))
    assert_equal(solver(instance, Scenarios(len(quotas), quotas)), expected)
    assert_equal(solver(instance, Scenarios(len(quotas), quotas.tolist())), expected)


@SOLVERS
def test_no_scenario_is_no_answer(solver: Solver) -> None:
    instance = instance_of(load("strata_plan"))
    empty = solver(instance, Scenarios(0, np.zeros((0, 1), dtype=np.int64)))
    assert_equal(empty, one_by_one(instance, Scenarios(0)))
    assert empty.usable.shape == (0, len(instance.pools))


def sampled(fits: Fits, instance: Instance, scenarios: Scenarios, number: int) -> None:
    """Compare some of many scenarios."""
    at = np.random.default_rng(11).integers(0, scenarios.number, number)
    picked = Scenarios(number, scenarios.quotas[at])
    assert_equal(fits.mapped(lambda array: array[at]), one_by_one(instance, picked))


def test_a_million_scenarios() -> None:
    instance = instance_of(two_windows(16, 64))
    scenarios = Scenarios(10**6, np.random.default_rng(5).integers(0, 2**22, (10**6, 1)))
    done: list[tuple[int, int]] = []
    fits = fit(instance, scenarios, progress=lambda *at: done.append(at))
    sampled(fits, instance, scenarios, 60)
    assert done[-1][0] == done[-1][1]


@pytest.mark.parametrize("elements", [1, 7, 64])
def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    monkeypatch.setattr("kvplan.kernels.arrays.batch.HOST_ELEMENTS", elements)
    instance = instance_of(two_windows(16, 64))
    scenarios = Scenarios(50, np.random.default_rng(6).integers(0, 2**17, (50, 1)))
    assert_equal(fit(instance, scenarios), one_by_one(instance, scenarios))


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "name"),
    [
        ({"constraints": [{"terms": {"blocks:p": 1}, "max": 9}]}, "linear constraints"),
        ({"goals": [{"maximize": {"blocks:p": 1, "capacity:q": 2}}]}, "weighted goal"),
    ],
)
def test_what_it_cannot_take_is_named(sections: dict[str, Any], name: str) -> None:
    instance = instance_of(micro(**one(20, fit="capacity"), **sections))
    with pytest.raises(RefusedError, match=name):
        Batch(instance)


def test_figures_that_may_overflow_are_refused() -> None:
    instance = instance_of(micro(**one(2**40, fit="capacity", count=2**20)))
    with pytest.raises(RefusedError, match="64-bit"):
        fit(instance, Scenarios(1))
    with pytest.raises(RefusedError, match="64-bit"):
        fit(instance_of(micro(**one(20))), Scenarios(1, np.array([[2**62]])))


@pytest.mark.parametrize(
    ("scenarios", "message"),
    [
        (Scenarios(1, [[0.5]]), "quotas: expected integers, got float64"),
        (Scenarios(1, [[2**63]]), "quotas: figures beyond 64-bit integers"),
        (Scenarios(1, [[2**70]]), "quotas: figures beyond 64-bit integers"),
        (
            Scenarios(2, np.zeros((3, 1), dtype=np.int64)),
            r"quotas: expected shape \(2, 1\), got \(3, 1\)",
        ),
        (Scenarios(1, capacities={0: np.array([0])}), "capacity of q: expected at least 1, got 0"),
        (Scenarios(1, counts={0: np.array([0])}), "q: counts vary between 0 and more"),
        (Scenarios(1, counts={0: np.array([-1])}), "count of q: expected at least 1, got -1"),
        (Scenarios(1, chunks=np.array([1])), "chunk index: expected at most 0, got 1"),
        (
            Scenarios(1, use=(np.array([[3]]), np.array([[2]]))),
            "resume utilization: expected above 0 and at most 1",
        ),
    ],
)
def test_columns_out_of_bounds(scenarios: Scenarios, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(instance_of(micro(**one(20, fit="capacity"))), scenarios)


def test_more_points_than_the_scalar_search_looks_at_are_left_to_it() -> None:
    scratch = {"fraction": "1/4", "max_rewind": 3}
    caches = [*windows(1584, 1, scratch=scratch), *windows(1600, 60, scratch=scratch)]
    caches.append({"name": "full", "pool": "p", "kind": "full", "tokens_per_block": 31})
    problem = micro(caches=caches, **one(4000, fit="capacity"))
    with pytest.raises(RefusedError, match="candidate points"):
        Batch(instance_of(problem))
    sweep = by_name(problem, {"quota": [0, 40, 400]})
    assert "candidate points" in sweep.notes[0]
    expected = one_by_one(instance_of(problem), Scenarios(3, np.array([[0], [40], [400]])))
    assert sweep.capacities.tolist() == expected.capacities.tolist()
