"""The plain reference: every scenario as terms of its own, solved by the scalar search."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvplan.kernels.batch.layout import Layout
from kvplan.kernels.batch.results import Fits, widths
from kvplan.kernels.batch.scenarios import Scenarios
from kvplan.kernels.nested import Nested
from kvplan.kernels.ordered import solve
from kvplan.kernels.terms import BatchTerms, Fitted, FixedRequests, Row, Terms
from kvplan.kernels.values import Point


def terms_at(terms: Terms, scenarios: Scenarios, index: int) -> Terms:
    """The terms of one scenario."""
    last = len(terms.chunks) if scenarios.chunks is None else int(scenarios.chunks[index]) + 1
    rows = tuple(_row(terms, row, scenarios, index, last) for row in terms.every_row)
    return terms._replace(
        pools=tuple(
            pool
            if scenarios.use is None
            else pool._replace(
                use_num=int(scenarios.use[0][index, at]), use_den=int(scenarios.use[1][index, at])
            )
            for at, pool in enumerate(terms.pools)
        ),
        batches=tuple(
            _batch(batch, at, scenarios, index) for at, batch in enumerate(terms.batches)
        ),
        fitted=tuple(
            _fitted(fitted, at, scenarios, index) for at, fitted in enumerate(terms.fitted)
        ),
        chunks=terms.chunks[:last],
        rows=rows,
        every_row=rows,
    )


def _row(terms: Terms, row: Row, scenarios: Scenarios, index: int, last: int) -> Row:
    row = row._replace(staging=row.staging[:last])
    if scenarios.quotas is None:
        return row
    base = Layout(terms).quotas[row.rank]
    moved = int(scenarios.quotas[index, row.rank]) - base
    return row._replace(room=row.room + moved, quota=row.quota + moved)


def _batch(batch: BatchTerms, at: int, scenarios: Scenarios, index: int) -> BatchTerms:
    more = [
        FixedRequests(int(g.capacity[index]), int(g.history[index]), int(g.count[index]))
        for g in scenarios.given
        if g.batch == at and int(g.count[index])
    ]
    return batch._replace(fixed=(*batch.fixed, *more))


def _fitted(fitted: Fitted, at: int, scenarios: Scenarios, index: int) -> Fitted:
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


def one_by_one(terms: Any, scenarios: Scenarios) -> Fits:
    """`fit` by the scalar search."""
    terms = getattr(terms, "terms", terms)
    points: list[Point | None] = []
    for index in range(scenarios.number):
        answer = solve(Nested(terms_at(terms, scenarios, index)))
        points.append(None if answer is None else answer.point)
    return from_points(terms, points)


def from_points(terms: Terms, points: list[Point | None]) -> Fits:
    """Points as arrays of NumPy, 0 where there is none."""
    columns = []
    for name, width in widths(terms).items():
        shape = (len(points),) if width is None else (len(points), width)
        column: Any = np.zeros(shape, dtype=np.bool_ if name == "feasible" else np.int64)
        for index, point in enumerate(points):
            if point is not None:
                column[index] = True if name == "feasible" else getattr(point, name)
        columns.append(column)
    return Fits(*columns)
