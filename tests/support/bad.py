"""Problems with one mistake each, and the lines they are refused with."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem, Problem

RANK = {"name": "r0", "quota": 1000}
POOL = {"name": "p", "bytes": 10}
UNITS = "B, kB, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB"
BYTES = f'bytes such as 17179869184 or "16GiB" (units {UNITS})'
NUMBER = 'a number such as 0.97 or "9/19"'
Table = dict[str, tuple[Any, str]]


def refused(data: Any) -> list[str]:
    """The lines that a problem is refused with."""
    with pytest.raises(InvalidProblem) as caught:
        Problem.model_validate(data)
    lines = [str(fault) for fault in caught.value.faults]
    assert str(caught.value).splitlines() == lines
    return lines


def each_of(table: Table) -> pytest.MarkDecorator:
    """Run a test for each mistake of a table, with (data, line)."""
    return pytest.mark.parametrize(("data", "line"), table.values(), ids=table)


def small(**sections: Any) -> dict[str, Any]:
    """The smallest valid problem and some sections."""
    return {"ranks": [RANK], **sections}


def cache(**fields: Any) -> dict[str, Any]:
    """One pool, one cache."""
    return small(pools=[POOL], caches=[{"name": "c", **fields}])


def request(**fields: Any) -> dict[str, Any]:
    """One batch, one request."""
    return small(batches=[{"name": "b", "requests": [{"name": "q", **fields}]}])


def prefill(**fields: Any) -> dict[str, Any]:
    """A prefill section that wants 100 tokens."""
    return small(prefill={"requested": 100, **fields})
