"""Scenarios as a table to read: bytes in human form, figures with their units."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kvplan.models.units import human_bytes
from kvplan.solver.report.document import Column, Document, Lines, Row, Table
from kvplan.solver.report.phrases import number

if TYPE_CHECKING:
    import pandas

MOST_ROWS = 200
_UNITS = {"prefill": "tokens", "experts": "slots"}
_BLOCKS_AND_REQUESTS = {"blocks": "blocks", "capacity": "tokens", "count": "requests"}
_SLACK, _PLACE = ("slack", "shortfall"), ("tightest_rank", "tightest_phase")


def scenario_document(table: pandas.DataFrame, in_bytes: Collection[str]) -> Document:
    """The first rows of a table, and how to have all.

    Parameters
    ----------
    in_bytes : varied fields whose values are bytes.
    """
    shown = table.head(MOST_ROWS)
    plain = shown.astype(object).where(shown.notna(), None).to_dict("records")
    names = [name for name in shown.columns if name not in (*_SLACK, *_PLACE)]
    columns = [Column(_title(name), _kind(shown[name])) for name in names]
    columns += [Column("slack", "number"), Column("tightest")]
    rows = tuple(
        Row(
            (
                *(_cell(row[name], name in in_bytes) for name in names),
                _slack(row),
                " ".join(str(row[name]) for name in _PLACE if row.get(name) is not None),
            ),
            state="bad" if row.get("status") == "infeasible" else "plain",
        )
        for row in plain
    )
    hidden = len(table) - len(shown)
    more = f"{number(hidden)} rows more: --out FILE, or a pipe, has all"
    return (Table("scenarios", tuple(columns), (rows,)), Lines((more,) if hidden else ()))


def _title(name: str) -> str:
    if name == "experts_in_prefill":
        return "in prefill\nslots"
    unit = _UNITS.get(name) or _BLOCKS_AND_REQUESTS.get(name.partition(":")[0])
    return f"{name}\n{unit}" if unit else name


def _kind(values: Any) -> Any:
    return "number" if values.dtype.kind in "iuf" else "text"


def _cell(value: Any, in_bytes: bool) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if in_bytes:
        return human_bytes(int(value))
    return number(value) if isinstance(value, int) else str(value)


def _slack(row: dict[Any, Any]) -> str | None:
    """Bytes left on the tightest rank; negative where they are short."""
    slack, short = (row.get(name) for name in _SLACK)
    if short is not None:
        return f"-{human_bytes(int(short))}"
    return None if slack is None else human_bytes(int(slack))
