"""Columns to a pandas table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kvplan.solver.explore.axes import Axis, Steps
from kvplan.solver.explore.decided import Figures, Numbers, Words
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


def below_one_another(labels: list[dict[str, str]], tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Tables of several problems as one; a column that a problem lacks stays empty there."""
    if len(tables) == 1 and not labels[0]:
        return tables[0]
    names = list(dict.fromkeys(str(name) for table in tables for name in table.columns))
    names.sort(key=("slack", "shortfall", "tightest_rank", "tightest_phase").count)
    columns: dict[str, object] = {
        name: np.repeat([each[name] for each in labels], [len(table) for table in tables])
        for name in labels[0]
    }
    for name in names:
        columns[name] = _stacked([table.get(name, _nothing(len(table))) for table in tables])
    return pd.DataFrame(columns)


def _nothing(rows: int) -> pd.Series:
    return pd.Series([None] * rows, dtype=object)


def _stacked(parts: list[pd.Series]) -> pd.Series:
    """One column; words keep the categories of all parts in order."""
    if any(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
        words = [word for part in parts for word in getattr(part.dtype, "categories", ())]
        kind = pd.CategoricalDtype(list(dict.fromkeys(words)))
        return pd.concat([part.astype(kind) for part in parts], ignore_index=True)
    filled = [part for part in parts if part.dtype != object] or parts
    if len(filled) < len(parts) and filled[0].dtype == np.int64:  # a number that some parts lack
        parts = [part.astype("Int64") for part in parts]
    elif len(filled) < len(parts):
        parts = [part.astype(filled[0].dtype) for part in parts]
    return pd.concat(parts, ignore_index=True)


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
