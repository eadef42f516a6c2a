"""Scenarios drawn for any problem, engines that answer them, and how answers are compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from kvplan.kernels.arrays import Fits, Given, Scenarios, fit
from kvplan.kernels.arrays.budget_layout import Layout
from kvplan.kernels.instance import Instance

DEVICE = os.environ.get("KVPLAN_DEVICE", "cpu")
"""Where torch and Triton run in the tests: "cuda" on a machine that has one."""

Solver = Callable[[Instance, Scenarios], Fits]


def by_numpy(instance: Instance, scenarios: Scenarios) -> Fits:
    """The batched search over NumPy."""
    return fit(instance, scenarios)


def by_torch(instance: Instance, scenarios: Scenarios) -> Fits:
    """The same over torch tensors."""
    return fit(instance, scenarios, device=DEVICE)


def by_triton(instance: Instance, scenarios: Scenarios) -> Fits:
    """The fused kernel, interpreted where there is no device."""
    from kvplan.kernels.triton import fit as fused

    return fused(instance, scenarios, device=DEVICE)


def on_host(array: Any) -> Any:
    """Any library's array as NumPy's."""
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def assert_equal(found: Fits, expected: Fits) -> None:
    """Every decision of every scenario, bit for bit."""
    for each in fields(Fits):
        mine, theirs = (on_host(getattr(fits, each.name)) for fits in (found, expected))
        assert mine.shape == theirs.shape, each.name
        assert mine.dtype == theirs.dtype, each.name
        wrong = np.argwhere(mine != theirs)[:, 0]
        assert not len(wrong), (each.name, int(wrong[0]), found.point(wrong[0]))


def quotas_around(instance: Instance, random: Any, number: int) -> Any:
    """Quotas by rank around the instance's own, those among them; None where none can vary."""
    layout = Layout(instance)
    if any(each.quota != layout.quotas[each.rank] for each in instance.every_budget):
        return None
    columns = []
    for rank in sorted(layout.quotas):
        share = random.integers(0, 2200, number)
        columns.append(layout.quotas[rank] * share // 1000)
        columns[-1][:1] = layout.quotas[rank]
    return np.stack(columns, axis=1)


def drawn(instance: Instance, seed: int, number: int = 8) -> Scenarios:
    """Scenarios that vary whatever can be varied."""
    random = np.random.default_rng(seed)
    capacities, counts = {}, {}
    for index, fitted in enumerate(instance.fitted):
        if random.random() < 0.5 and (fitted.capacity or not fitted.is_count):
            least = max(1, fitted.flight) if fitted.is_count else fitted.least
            most = fitted.capacity if fitted.is_count else fitted.most
            assert most is not None
            capacities[index] = random.integers(least, most + 10, number)
        if random.random() < 0.5:
            least = fitted.least if fitted.is_count else 1
            counts[index] = random.integers(least, least + 5, number)
    chunks = random.integers(0, len(instance.chunks), number) if random.random() < 0.5 else None
    return Scenarios(
        number,
        quotas_around(instance, random, number),
        capacities,
        counts,
        chunks,
        _use(instance, random, number) if random.random() < 0.5 else None,
        _given(instance, random, number),
    )


def _use(instance: Instance, random: Any, number: int) -> tuple[Any, Any]:
    den = random.integers(1, 60, (number, len(instance.pools)))
    return random.integers(1, den + 1), den


def _given(instance: Instance, random: Any, number: int) -> tuple[Given, ...]:
    given = []
    for batch in range(len(instance.batches)):
        if random.random() < 0.3:
            capacity = random.integers(0, 30, number) * (random.random(number) < 0.8)
            history = random.integers(0, capacity + 1)
            given.append(Given(batch, capacity, history, random.integers(0, 3, number)))
    return tuple(given)


def for_kernel(scenarios: Scenarios) -> Scenarios:
    """The same without what the fused kernel does not take."""
    return replace(scenarios, use=None, given=())
