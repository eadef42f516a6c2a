"""Where only quotas vary: tables and staircases give what the search gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels.arrays import Scenarios
from kvplan.kernels.arrays.arrays import Arrays
from kvplan.kernels.arrays.batch import Batch
from kvplan.kernels.arrays.scalar import one_by_one
from kvplan.kernels.arrays.search import array_bytes
from kvplan.kernels.arrays.staircase import build
from kvplan.kernels.arrays.table import Swept, tabulate
from kvplan.kernels.bytes import most_blocks
from kvplan.kernels.instance import Buffers, Instance
from kvplan.models import InvalidProblem, Problem
from support.instance import instance_of, windows
from support.instances import small_problem
from support.micro import micro, one, pool
from support.scenarios import assert_equal, quotas_around


def limits_of(batch: Batch, scenarios: Scenarios) -> list[Any]:
    return batch.layout.limits(batch.arrays, scenarios.quotas)


@given(st.integers(0, 2**32 - 1))
def test_a_table_over_granules_changes_nothing(seed: int) -> None:
    try:
        instance = instance_of(small_problem(seed, constraints=False, weighted=False, memory=False))
    except InvalidProblem:
        return
    batch = Batch(instance)
    quotas = quotas_around(instance, np.random.default_rng(seed), 40)
    scenarios = Scenarios(400, np.tile(quotas, (10, 1)))
    limits = limits_of(batch, scenarios)
    swept = tabulate(batch, scenarios, limits, None)
    direct = one_by_one(instance, Scenarios(40, quotas))
    if swept is not None:
        assert_equal(swept.expand().mapped(lambda array: array[:40]), direct)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_staircase_changes_nothing(seed: int, unwind: bool) -> None:
    try:
        problem = small_problem(seed, constraints=False, goals=False, prefix=unwind, memory=False)
        instance = instance_of(problem)
    except InvalidProblem:
        return
    batch = Batch(instance)
    scenarios = Scenarios(24, quotas_around(instance, np.random.default_rng(seed), 24))
    assert_equal(
        batch.solve(scenarios, limits_of(batch, scenarios), None), one_by_one(instance, scenarios)
    )


def falling(ranks: int) -> Instance:
    """Live windows of two block sizes: bytes fall and rise along the candidates."""
    caches = [*windows(32, 64), {**windows(48, 100)[0], "name": "other"}]
    request = {"capacity": 900, "count": 4, "fit": "capacity", "min_capacity": 97}
    names = [{"name": f"r{i}", "stage": i, "quota": 1000} for i in range(ranks)]
    pools = [{"name": "p", "bytes": {str(i): 10 + 3 * i for i in range(ranks)}}]
    batches = [{"name": "b", "requests": [request]}]
    return instance_of(micro(caches=caches, batches=batches, ranks=names, pools=pools))


@pytest.mark.parametrize("ranks", [1, 2])
def test_bytes_that_fall_along_the_candidates(ranks: int) -> None:
    """One budget: the envelope is exact. Two may be met by different candidates."""
    instance = falling(ranks)
    quotas = np.random.default_rng(1).integers(0, 900, (120, ranks))
    scenarios = Scenarios(120, quotas)
    batch = Batch(instance)
    limits = limits_of(batch, scenarios)
    stairs = build(batch, scenarios, limits)
    assert (stairs is None) == (ranks > 1)
    assert_equal(batch.solve(scenarios, limits, None), one_by_one(instance, scenarios))


def staged(size: int, granule: int) -> Problem:
    """Two stages of different bytes, one request that may shrink."""
    ranks = [{"name": "a", "stage": 0, "quota": 5000}, {"name": "b", "stage": 1, "quota": 5000}]
    pools = [{"name": "p", "bytes": {"0": size, "1": 3 * size}, "granule": granule}]
    return micro(ranks=ranks, pools=pools, **one(400, fit="capacity"))


@pytest.mark.parametrize(("size", "granule"), [(10, 1), (10, 64), (7, 24)])
def test_unequal_quotas_take_the_least_of_the_lookups(size: int, granule: int) -> None:
    instance = instance_of(staged(size, granule))
    scenarios = Scenarios(300, np.random.default_rng(2).integers(0, 4000, (300, 2)))
    batch = Batch(instance)
    limits = limits_of(batch, scenarios)
    stairs = build(batch, scenarios, limits)
    assert stairs is not None
    assert all(stair.inverse is not None for stair in stairs.stairs if len(set(stair.bytes)) > 1)
    assert_equal(batch.solve(scenarios, limits, None), one_by_one(instance, scenarios))


@pytest.mark.parametrize("count", [None, 7])
def test_a_count_by_staircase(count: int | None) -> None:
    more = {} if count is None else {"count": count}
    instance = instance_of(micro(**one(12, fit="count", **more)))
    scenarios = Scenarios(50, np.arange(50)[:, None] * 9)
    batch = Batch(instance)
    limits = limits_of(batch, scenarios)
    assert build(batch, scenarios, limits) is not None
    assert_equal(batch.solve(scenarios, limits, None), one_by_one(instance, scenarios))


def test_few_scenarios_list_no_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(_: Any) -> Any:
        raise AssertionError("a million candidates for one scenario")

    instance = instance_of(micro(**one(500_000, fit="capacity")))
    batch, scenarios = Batch(instance), Scenarios(1)
    monkeypatch.setattr(np, "unique", listed)
    assert build(batch, scenarios, limits_of(batch, scenarios)) is None


def test_equal_units_are_solved_once() -> None:
    """Blocks of 10 bytes: ten quotas share a plan."""
    instance = instance_of(micro(**one(20, fit="capacity")))
    quotas = np.arange(5000)[:, None] % 120
    swept = Batch(instance).sweep(Scenarios(5000, quotas))
    assert isinstance(swept, Swept)
    assert swept.plans.feasible.shape == (12,)
    assert_equal(
        swept.expand().mapped(lambda array: array[:120]),
        one_by_one(instance, Scenarios(120, quotas[:120])),
    )


def test_shares_are_taken_of_every_byte() -> None:
    """30 % of 34 bytes are one block of 10, of 33 bytes none: no table over blocks."""
    problem = micro(**one(4), fill={"shares": {"p": "0.3"}})
    instance = instance_of(problem)
    quotas = np.tile(np.arange(10, 90)[:, None], (8, 1))
    batch = Batch(instance)
    scenarios = Scenarios(len(quotas), quotas)
    assert tabulate(batch, scenarios, limits_of(batch, scenarios), None) is None
    assert_equal(batch.fit(scenarios), one_by_one(instance, scenarios))


@pytest.mark.parametrize(
    "buffers", [((10, 64), (7, 24)), ((5, 1), (9, 6), (4, 4)), ((70, 64), (1, 64))]
)
def test_pools_of_several_buffers(buffers: Buffers) -> None:
    problem = micro(
        **pool(buffers=[{"bytes": size, "granule": granule} for size, granule in buffers]),
        **one(20, fit="capacity"),
    )
    instance = instance_of(problem)
    room = np.arange(-40, 1501)
    expected = [most_blocks(int(each), buffers) for each in room]
    assert array_bytes.most_blocks(Arrays(), room, buffers).tolist() == expected
    scenarios = Scenarios(1501, np.arange(1501)[:, None])
    batch = Batch(instance)
    found = batch.solve(scenarios, limits_of(batch, scenarios), None)
    assert_equal(found, one_by_one(instance, scenarios))
