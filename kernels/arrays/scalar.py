"""The plain reference: every scenario as an instance of its own, solved by the scalar search."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvplan.kernels.arrays.budget_layout import Layout
from kvplan.kernels.arrays.results import Fits, widths
from kvplan.kernels.arrays.scenarios import Scenarios
from kvplan.kernels.instance import BatchRequests, Budget, FixedRequests, Instance, VariableRequest
from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point


def instance_at(instance: Instance, scenarios: Scenarios, index: int) -> Instance:
    """The instance of one scenario."""
    last = len(instance.chunks) if scenarios.chunks is None else int(scenarios.chunks[index]) + 1
    budgets = tuple(
        _budget(instance, budget, scenarios, index, last) for budget in instance.every_budget
    )
    return instance._replace(
        pools=tuple(
            pool
            if scenarios.use is None
            else pool._replace(
                use_num=int(scenarios.use[0][index, at]), use_den=int(scenarios.use[1][index, at])
            )
            for at, pool in enumerate(instance.pools)
        ),
        batches=tuple(
            _batch(batch, at, scenarios, index) for at, batch in enumerate(instance.batches)
        ),
        fitted=tuple(
            _fitted(fitted, at, scenarios, index) for at, fitted in enumerate(instance.fitted)
        ),
        chunks=instance.chunks[:last],
        budgets=budgets,
        every_budget=budgets,
    )


def _budget(
    instance: Instance, budget: Budget, scenarios: Scenarios, index: int, last: int
) -> Budget:
    budget = budget._replace(staging=budget.staging[:last])
    if scenarios.quotas is None:
        return budget
    base = Layout(instance).quotas[budget.rank]
    moved = int(scenarios.quotas[index, budget.rank]) - base
    return budget._replace(limit_bytes=budget.limit_bytes + moved, quota=budget.quota + moved)


def _batch(batch: BatchRequests, at: int, scenarios: Scenarios, index: int) -> BatchRequests:
    more = [
        (
            g.caches,
            FixedRequests(int(g.capacity[index]), int(g.history[index]), int(g.count[index])),
        )
        for g in scenarios.given
        if g.batch == at and int(g.count[index])
    ]
    return batch._replace(
        fixed=(*batch.fixed, *[row for caches, row in more if caches is None]),
        partial=(*batch.partial, *[(c, row) for c, row in more if c is not None]),
    )


def _fitted(fitted: VariableRequest, at: int, scenarios: Scenarios, index: int) -> VariableRequest:
    if at in scenarios.capacities:
        capacity = int(scenarios.capacities[at][index])
        if fitted.is_count:
            fitted = fitted._replace(capacity=capacity)
        else:
            fitted = fitted._replace(most=capacity)
    if at in scenarios.counts:
        count = int(scenarios.counts[at][index])
        is_count = fitted.is_count
        fitted = fitted._replace(most=count) if is_count else fitted._replace(requests=count)
    return fitted


def one_by_one(instance: Any, scenarios: Scenarios) -> Fits:
    """`fit` by the scalar search."""
    instance = getattr(instance, "instance", instance)
    points: list[Point | None] = []
    for index in range(scenarios.number):
        answer = solve(Search(instance_at(instance, scenarios, index)))
        points.append(None if answer is None else answer.point)
    return from_points(instance, points)


def from_points(instance: Instance, points: list[Point | None]) -> Fits:
    """Points as arrays of NumPy, 0 where there is none."""
    columns = []
    for name, width in widths(instance).items():
        shape = (len(points),) if width is None else (len(points), width)
        column: Any = np.zeros(shape, dtype=np.bool_ if name == "feasible" else np.int64)
        for index, point in enumerate(points):
            if point is not None:
                column[index] = True if name == "feasible" else getattr(point, name)
        columns.append(column)
    return Fits(*columns)
