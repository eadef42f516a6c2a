"""Rows to a table, the best first where that was asked for."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kvplan.models import InvalidProblem
from kvplan.models.messages import one_of, shown

_NUMBERS = (
    "gpus",
    "machine_bytes",
    "request_tokens",
    "requests",
    "tokens",
    "tokens_per_gpu",
    "kv_bytes",
)
_LAST = ("status", *_NUMBERS, "estimated", "reason")
BEST = ("tokens_per_gpu", "requests", "tokens", "kv_bytes")


def ranked(rows: list[dict[str, Any]], *, best: str | None, users: int | None) -> pd.DataFrame:
    """The table, sorted.

    Raises
    ------
    InvalidProblem : a column that cannot be the best.
    """
    table = _table(rows)
    by: dict[str, bool] = {}  # column -> rising
    if users is not None:
        table = _enough(table, users)
        by |= {"machine_bytes": True, "gpus": True, "requests": False}
    if best is not None:
        by = {_column(best): False, **by}
    if not by:
        return table
    order = table.sort_values(
        list(by), ascending=list(by.values()), kind="stable", na_position="last"
    )
    return order.reset_index(drop=True)


def _enough(table: pd.DataFrame, users: int) -> pd.DataFrame:
    """Rows that hold a request, with the replicas that so many take; GPUs and bytes of them all."""
    table = table[table["requests"].fillna(0) >= 1].copy()
    replicas = -(-users // table["requests"])
    table.insert(list(table.columns).index("gpus"), "replicas", replicas)
    for column in ("gpus", "machine_bytes", "requests", "tokens"):
        table[column] = table[column] * replicas
    return table


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Settings first; numbers that a row lacks stay empty."""
    names = [
        name for name in dict.fromkeys(key for row in rows for key in row) if name not in _LAST
    ]
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
    for name in _LAST:
        values = [row.get(name) for row in rows]
        columns[name] = pd.array(values, dtype="Int64" if name in _NUMBERS else "string")
    return pd.DataFrame(columns)


def _column(text: str) -> str:
    name = text.strip().replace(" ", "_").lower()
    if name not in BEST:
        raise InvalidProblem.at("--best", one_of(BEST, name), shown(text))
    return name
