"""Columns to a pandas table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kvplan.solver.explore.axes import Axis, Steps
from kvplan.solver.explore.figures import Figures, Numbers, Words
from kvplan.solver.explore.grid import Grid


def table_of(grid: Grid, figures: Figures) -> pd.DataFrame:
    """One row for each scenario: the varied fields, then what was decided."""
    columns: dict[str, object] = {}
    each, times = len(grid), 1
    for axis in grid.axes:
        each //= len(axis.figures)
        columns[axis.path] = np.tile(np.repeat(axis_values(axis), each), times)
        times *= len(axis.figures)
    return pd.DataFrame({**columns, **columns_of(figures)})


def columns_of(figures: Figures) -> dict[str, object]:
    """What is decided, as columns of a table."""
    return {name: _column(column) for name, column in figures.items()}


def axis_values(axis: Axis) -> np.ndarray[tuple[int], np.dtype[np.int64 | np.float64]]:
    """The values of an axis: whole numbers, or decimals where one of them has a fraction."""
    figures = axis.figures
    if isinstance(figures, Steps) and figures.first.denominator == figures.step.denominator == 1:
        first, step = int(figures.first), int(figures.step)
        return first + step * np.arange(len(figures), dtype=np.int64)
    exact = [figure.exact for figure in figures]
    if all(value.denominator == 1 for value in exact):
        return np.array([int(value) for value in exact], np.int64)
    return np.array([float(value) for value in exact], np.float64)


def _column(column: Numbers | Words) -> object:
    if isinstance(column, Words):
        return pd.Categorical.from_codes(column.codes, categories=pd.Index(column.names))
    return pd.arrays.IntegerArray(column.values, column.missing)
