"""Bytes of many decided scenarios: what the tightest rank has left, and whole copies of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kvplan.kernels.arrays import Fits, Scenarios
from kvplan.kernels.arrays.arrays import Arrays
from kvplan.kernels.arrays.needs import Needs
from kvplan.kernels.arrays.search.array_bytes import expert_bytes, pool_bytes
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Budget, Instance
from kvplan.solver.formulate.budgets import merge_key

Array = Any
"""Integers [scenario]."""
_ARRAYS = Arrays()


class Tightest(NamedTuple):
    """The rank with the least slack, and its fullest phase; of equals the first."""

    slack: Array  # bytes
    rank: Array  # index
    phase: Array  # index into the phases


def tightest(
    instance: Instance, fits: Fits, quotas: Sequence[Array | int], phases: Sequence[str]
) -> Tightest:
    """slack = quota - max over phases of the bytes in use, consumers and headroom included.

    Parameters
    ----------
    quotas : bytes by rank.
    """
    number = fits.chunk.shape[0]
    used = np.full((len(quotas), number), np.iinfo(np.int64).min)
    fullest = np.zeros((len(quotas), number), dtype=np.int64)
    lefts: dict[object, Array] = {}
    declared = {row.rank: row.quota for row in reversed(instance.every_budget)}
    for row in sorted(instance.every_budget, key=lambda row: phases.index(row.phase)):
        key = merge_key(row)
        if key not in lefts:
            lefts[key] = _left_bytes(instance, row, fits)
        taken = lefts[key] + (declared[row.rank] - row.limit_bytes)
        is_more = taken > used[row.rank]
        used[row.rank] = np.where(is_more, taken, used[row.rank])
        fullest[row.rank][is_more] = phases.index(row.phase)
    slack = np.stack([quota - each for quota, each in zip(quotas, used, strict=True)])
    rank = np.argmin(slack, axis=0)
    at = (rank, np.arange(number))
    return Tightest(slack[at], rank, fullest[at])


def first_rows(instance: Instance) -> list[Budget]:
    """The first row of each rank and phase; a headroom row repeats a phase."""
    rows: dict[tuple[int, str], Budget] = {}
    for row in instance.every_budget:
        rows.setdefault((row.rank, row.phase), row)
    return list(rows.values())


def _left_bytes(instance: Instance, row: Budget, fits: Fits) -> Array:
    """Bytes of pools, experts, staging and options: `budget_bytes` over scenarios."""
    total: Any = np.zeros(fits.chunk.shape[0], dtype=np.int64)
    for pool, buffers in enumerate(row.pools):
        total = total + pool_bytes(fits.usable[:, pool] + instance.pools[pool].reserved, buffers)
    if row.layers and instance.experts is not None:
        slots = fits.kept if row.lent else fits.experts
        total = total + expert_bytes(_ARRAYS, slots, row.layers, instance.experts)
    if row.staging:
        total = total + np.asarray(row.staging, dtype=np.int64)[fits.chunk]
    for choice, options in enumerate(row.options):
        total = total + np.asarray(options, dtype=np.int64)[fits.options[:, choice]]
    return total


def copies_held(instance: Instance, scenarios: Scenarios, fits: Fits, batch: int) -> Array:
    """min over pools of floor(usable x u / raw): whole copies of a batch that the blocks hold."""
    needs = Needs(_ARRAYS, Demand(instance), scenarios.given)
    capacities = [fits.capacities[:, index] for index in range(len(instance.fitted))]
    counts = [fits.counts[:, index] for index in range(len(instance.fitted))]
    raws = needs.batch(batch, capacities, counts, fits.chunk)
    most: Array | None = None
    for index, raw in enumerate(raws):
        pool = instance.pools[index]
        num, den = pool.use_num, pool.use_den
        if scenarios.use is not None:
            num, den = scenarios.use[0][:, index], scenarios.use[1][:, index]
        held = fits.usable[:, index] * num // np.maximum(raw * den, 1)
        held = np.where(np.asarray(raw) > 0, held, np.iinfo(np.int64).max)
        most = held if most is None else np.minimum(most, held)
    assert most is not None
    return np.where(most == np.iinfo(np.int64).max, 0, most)
