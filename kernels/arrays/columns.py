"""Columns of scenarios: checked, on the device, and their ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvplan.kernels.arrays.integer_range import Ranges
from kvplan.kernels.arrays.needs import refuse_capacities, refuse_counts
from kvplan.kernels.arrays.scenarios import Given, RefusedError, Scenarios

if TYPE_CHECKING:
    from kvplan.kernels.arrays.batch import Batch


def checked(batch: Batch, scenarios: Scenarios) -> Scenarios:
    """The scenarios as int64 columns on the batch's device.

    Raises
    ------
    ValueError : a column of the wrong length, or a figure outside its bounds.
    RefusedError : what the search cannot vary.
    """
    instance, number = batch.instance, scenarios.number
    ranks = 1 + max(budget.rank for budget in instance.every_budget)
    quotas = None
    if scenarios.quotas is not None:
        batch.layout.refuse_quotas()
        quotas = _column(batch, "quotas", scenarios.quotas, (number, ranks))
    capacities = _columns(batch, "capacities", scenarios.capacities, number)
    counts = _columns(batch, "counts", scenarios.counts, number)
    for index, column in capacities.items():
        fitted = instance.fitted[index]
        if fitted.is_count:
            refuse_capacities(instance, index, _least(column))
            _within(f"capacity of {fitted.name}", column, fitted.flight, None)
        else:
            _within(f"capacity of {fitted.name}", column, fitted.least, None)
    for index, column in counts.items():
        fitted = instance.fitted[index]
        if not fitted.is_count:
            refuse_counts(instance, index, _least(column))
        _within(f"count of {fitted.name}", column, fitted.least if fitted.is_count else 1, None)
    chunks = None
    if scenarios.chunks is not None:
        chunks = _column(batch, "chunks", scenarios.chunks, (number,))
        _within("chunk index", chunks, 0, len(instance.chunks) - 1)
    return Scenarios(
        number, quotas, capacities, counts, chunks, _use(batch, scenarios), _given(batch, scenarios)
    )


def _columns(batch: Batch, name: str, columns: Mapping[int, Any], number: int) -> dict[int, Any]:
    return {
        index: _column(batch, f"{name}[{index}]", column, (number,))
        for index, column in columns.items()
    }


def _column(batch: Batch, name: str, values: Any, shape: tuple[int, ...]) -> Any:
    column = batch.arrays.ints(integers(name, values))
    if tuple(column.shape) != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {tuple(column.shape)}")
    return column


def integers(name: str, values: Any) -> Any:
    """The values as an array of a signed integer type.

    Raises
    ------
    ValueError : they are no integers.
    RefusedError : some integer needs more than 64 bits.
    """
    array = values if hasattr(values, "dtype") else np.asarray(values)
    dtype = str(array.dtype)
    if dtype == "object" or (dtype == "uint64" and array.size and int(array.max()) >= 2**63):
        raise RefusedError(f"{name}: figures beyond 64-bit integers")
    if "int" not in dtype and array.shape[0]:
        raise ValueError(f"{name}: expected integers, got {dtype.removeprefix('torch.')}")
    return array


def _least(column: Any) -> int:
    return int(column.min()) if column.shape[0] else 1


def _most(column: Any) -> int:
    return int(column.max()) if column.shape[0] else 0


def _within(name: str, column: Any, least: int, most: int | None) -> None:
    if not column.shape[0]:
        return
    if _least(column) < least:
        raise ValueError(f"{name}: expected at least {least}, got {_least(column)}")
    if most is not None and _most(column) > most:
        raise ValueError(f"{name}: expected at most {most}, got {_most(column)}")


def _use(batch: Batch, scenarios: Scenarios) -> tuple[Any, Any] | None:
    if scenarios.use is None:
        return None
    shape = (scenarios.number, len(batch.instance.pools))
    num, den = (_column(batch, "resume utilization", part, shape) for part in scenarios.use)
    if scenarios.number and (_least(num) < 1 or bool((num > den).any())):
        raise ValueError("resume utilization: expected above 0 and at most 1")
    return num, den


def _given(batch: Batch, scenarios: Scenarios) -> tuple[Given, ...]:
    number, found = scenarios.number, []
    for index, given in enumerate(scenarios.given):
        name = f"given[{index}]"
        capacity, history, count = (
            _column(batch, name, column, (number,))
            for column in (given.capacity, given.history, given.count)
        )
        _within(f"{name} count", count, 0, None)
        _within(f"{name} history", history, 0, None)
        if number and bool((history > capacity).any()):
            raise ValueError(f"{name}: expected a history of at most its capacity")
        found.append(Given(given.batch, capacity, history, count))
    return tuple(found)


def ranges_of(batch: Batch, scenarios: Scenarios, limits: Sequence[Any]) -> Ranges:
    """The largest figures of checked scenarios."""
    instance = batch.instance
    capacities: dict[int, int] = {}
    counts: dict[int, int | None] = {}
    for index, fitted in enumerate(instance.fitted):
        capacity = fitted.capacity if fitted.is_count else fitted.most
        count = fitted.most if fitted.is_count else fitted.requests
        assert capacity is not None
        if index in scenarios.capacities:
            capacity = _most(scenarios.capacities[index])
        if index in scenarios.counts:
            count = _most(scenarios.counts[index])
        capacities[index], counts[index] = capacity, count
    use = tuple((pool.use_num, pool.use_den) for pool in instance.pools)
    if scenarios.use is not None:
        num, den = scenarios.use
        use = tuple(
            (_least(num[:, pool]), _most(den[:, pool])) for pool in range(len(instance.pools))
        )
    return Ranges(
        limits=tuple(_most(limit) for limit in limits),
        lowest_limit=min((_least(limit) for limit in limits), default=0),
        capacities=capacities,
        counts=counts,
        use=use,
        given=tuple((g.batch, _most(g.capacity), _most(g.count)) for g in scenarios.given),
    )
