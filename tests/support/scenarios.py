"""Scenarios drawn for any problem, engines that answer them, and how answers are compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from kvplan.kernels.batch import Fits, Given, Scenarios, fit
from kvplan.kernels.batch.layout import Layout
from kvplan.kernels.terms import Terms

DEVICE = os.environ.get("KVPLAN_DEVICE", "cpu")
"""Where torch and Triton run in the tests: "cuda" on a machine that has one."""

Engine = Callable[[Terms, Scenarios], Fits]


def by_numpy(terms: Terms, scenarios: Scenarios) -> Fits:
    """The batched search over NumPy."""
    return fit(terms, scenarios)


def by_torch(terms: Terms, scenarios: Scenarios) -> Fits:
    """The same over torch tensors."""
    return fit(terms, scenarios, device=DEVICE)


def by_triton(terms: Terms, scenarios: Scenarios) -> Fits:
    """The fused kernel, interpreted where there is no device."""
    from kvplan.kernels.triton import fit as fused

    return fused(terms, scenarios, device=DEVICE)


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


def quotas_around(terms: Terms, random: Any, number: int) -> Any:
    """Quotas by rank around the terms' own, those among them; None where none can vary."""
    layout = Layout(terms)
    if any(row.quota != layout.quotas[row.rank] for row in terms.every_row):
        return None
    columns = []
    for rank in sorted(layout.quotas):
        share = random.integers(0, 2200, number)
        columns.append(layout.quotas[rank] * share // 1000)
        columns[-1][:1] = layout.quotas[rank]
    return np.stack(columns, axis=1)


def drawn(terms: Terms, seed: int, number: int = 8) -> Scenarios:
    """Scenarios that vary whatever can be varied."""
    random = np.random.default_rng(seed)
    capacities, counts = {}, {}
    for index, fitted in enumerate(terms.fitted):
        if random.random() < 0.5 and (fitted.capacity or not fitted.is_count):
            least = max(1, fitted.flight) if fitted.is_count else fitted.least
            most = fitted.capacity if fitted.is_count else fitted.most
            assert most is not None
            capacities[index] = random.integers(least, most + 10, number)
        if random.random() < 0.5:
            least = fitted.least if fitted.is_count else 1
            counts[index] = random.integers(least, least + 5, number)
    chunks = random.integers(0, len(terms.chunks), number) if random.random() < 0.5 else None
    return Scenarios(
        number,
        quotas_around(terms, random, number),
        capacities,
        counts,
        chunks,
        _use(terms, random, number) if random.random() < 0.5 else None,
        _given(terms, random, number),
    )


def _use(terms: Terms, random: Any, number: int) -> tuple[Any, Any]:
    den = random.integers(1, 60, (number, len(terms.pools)))
    return random.integers(1, den + 1), den


def _given(terms: Terms, random: Any, number: int) -> tuple[Given, ...]:
    given = []
    for batch in range(len(terms.batches)):
        if random.random() < 0.3:
            capacity = random.integers(0, 30, number) * (random.random(number) < 0.8)
            history = random.integers(0, capacity + 1)
            given.append(Given(batch, capacity, history, random.integers(0, 3, number)))
    return tuple(given)


def for_kernel(scenarios: Scenarios) -> Scenarios:
    """The same without what the fused kernel does not take."""
    return replace(scenarios, use=None, given=())
