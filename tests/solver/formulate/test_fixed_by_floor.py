"""A fitted request whose least is what it asks has nothing to fit: it is a fixed one."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from support.micro import micro
from support.solvers import agreed, refused

PREFIX = {"shared_prefix": 8}
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "min_capacity": ({"capacity": 20, "fit": "capacity", "min_capacity": 20}, {"capacity": 20}, {}),
    "all in flight": (
        {"capacity": 9, "history": 0, "fit": "capacity"},
        {"capacity": 9, "history": 0},
        {},
    ),
    "one token": ({"capacity": 1, "fit": "capacity"}, {"capacity": 1}, {}),
    "alike ones": (
        {"capacity": 20, "fit": "capacity", "min_capacity": 20, "count": 3},
        {"capacity": 20, "count": 3},
        {},
    ),
    "min_count": (
        {"capacity": 20, "fit": "count", "min_count": 3, "count": 3},
        {"capacity": 20, "count": 3},
        {},
    ),
    "its prefix": (
        {"capacity": 9, "history": 8, "fit": "capacity"},
        {"capacity": 9, "history": 8},
        PREFIX,
    ),
}


def asked(quota: int, request: dict[str, Any], batch: dict[str, Any]) -> Problem:
    others = {"name": "other", "capacity": 40, "fit": "capacity"}
    requests = [{"name": "q", **request}, others]
    return micro(quota, batches=[{"name": "b", "requests": requests, **batch}])


@pytest.mark.parametrize("form", FORMS)
def test_it_is_planned_as_a_fixed_one(form: str) -> None:
    marked, fixed, batch = FORMS[form]
    for quota in (200, 240, 300):
        mine, plain = agreed(asked(quota, marked, batch)), agreed(asked(quota, fixed, batch))
        assert mine.blocks == plain.blocks
        assert mine.requests == plain.requests
        assert not mine.requests[0].reduced


@pytest.mark.parametrize("form", FORMS)
def test_it_is_refused_as_a_fixed_one(form: str) -> None:
    marked, fixed, batch = FORMS[form]
    mine, plain = refused(asked(10, marked, batch)), refused(asked(10, fixed, batch))
    assert mine.shortfall == plain.shortfall


def test_a_floor_at_what_is_asked_says_what_is_short() -> None:
    """A context of 1,048,576 tokens at 16 KiB each, on 12 GiB."""
    request = {"capacity": 2**20, "fit": "capacity", "min_capacity": 2**20}
    problem = Problem.model_validate(
        {
            "ranks": [{"name": "r", "quota": "12GiB"}],
            "tokens_per_block": 1,
            "pools": [{"name": "kv", "bytes": "16KiB"}],
            "caches": [{"name": "full", "kind": "full"}],
            "batches": [{"name": "b", "requests": [request]}],
        }
    )
    with pytest.raises(Infeasible) as caught:
        plan(problem)
    assert [short.bytes for short in caught.value.shortfall] == [4 * 2**30] * 2
    quota = next(r for r in caught.value.remedies if r.change == "ranks.r.quota")
    assert quota.to == 16 * 2**30
