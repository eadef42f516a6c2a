"""How a refusal reads in a log, and copies with lists."""

from __future__ import annotations

import warnings

import pytest

from kvplan import Infeasible, InvalidProblem, Problem, Rank, plan

PROBLEM = Problem.model_validate(
    {
        "ranks": [{"name": f"r{index}", "quota": 1000 + index} for index in range(8)],
        "consumers": [{"name": "weights", "bytes": 5000}],
    }
)


def test_the_repr_of_a_refusal_is_one_line_with_the_worst_rank() -> None:
    with pytest.raises(Infeasible) as caught:
        plan(PROBLEM)
    text = repr(caught.value)
    assert text == "Infeasible('r0 is short by 4_000 B in load, and 23 more')"
    assert len(str(caught.value).splitlines()) > 1


def test_references_and_goals_are_reported_together() -> None:
    data = {
        "ranks": [{"name": "r", "quota": 1000}],
        "pools": [{"name": "kv", "bytes": 1}, {"name": "win", "bytes": 1}],
        "caches": [{"name": "c", "pool": "wins", "kind": "full"}],
        "goals": ["blocks:kw"],
        "fill": {"pools": ["nope"]},
    }
    with pytest.raises(InvalidProblem) as caught:
        Problem.model_validate(data)
    assert [fault.path for fault in caught.value.faults] == [
        "caches[0].pool",
        "goals[0]",
        "fill.pools",
    ]


def test_a_copy_takes_a_list_as_a_tuple() -> None:
    copy = PROBLEM.model_copy(update={"ranks": [Rank(name="one", quota=9000)]})
    assert copy.ranks == (Rank(name="one", quota=9000),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copy.model_dump()["ranks"][0]["name"] == "one"
    assert hash(copy.ranks) is not None
