"""Problems of a few lines, to compute by hand: blocks of 10 bytes, 4 tokens each."""

from __future__ import annotations

from typing import Any

from kvplan.models import Problem
from kvplan.solver.oracle import best


def micro(quota: int = 100, **sections: Any) -> Problem:
    """One rank and one pool of blocks of 10 bytes; a section given replaces the default."""
    data: dict[str, Any] = {
        "ranks": [{"name": "r0", "quota": quota}],
        "tokens_per_block": 4,
        "pools": [{"name": "p", "bytes": 10}],
        "caches": [{"name": "c", "pool": "p", "kind": "full"}],
    }
    return Problem.model_validate({**data, **sections})


def pool(**fields: Any) -> dict[str, Any]:
    """The sections of a problem whose pool has these fields as well."""
    layout = {} if "buffers" in fields else {"bytes": 10}
    return {"pools": [{"name": "p", **layout, **fields}]}


def cache(**fields: Any) -> dict[str, Any]:
    """The sections of a problem with one cache of these fields."""
    return {"caches": [{"name": "c", "pool": "p", **fields}]}


def one(capacity: int, history: int | None = None, **fields: Any) -> dict[str, Any]:
    """The sections of a problem with one request."""
    request = {"name": "q", "capacity": capacity, **fields}
    if history is not None:
        request["history"] = history
    return {"batches": [{"name": "b", "requests": [request]}]}


def solved(problem: Problem) -> Any:
    """The best plan, which must exist (Any: to be held against tuples and plain numbers)."""
    found = best(problem)
    assert found is not None
    return found
