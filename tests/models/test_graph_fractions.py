"""graphs: {fraction: ...} of what is usable, as HabanaAI/vllm-fork#147 reserves them."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.models.ranks import Rank, RankMemory
from kvplan.solver import oracle, plan

GIB = 2**30


def quota(**memory: Any) -> int:
    return Rank.model_validate({"name": "r", "memory": memory}).quota_bytes


def problem(**memory: Any) -> Problem:
    data = {"ranks": [{"name": "hpu", "memory": memory}]}
    return Problem.model_validate({**data, "pools": [{"name": "kv", "bytes": "16MiB"}]})


def test_a_fraction_of_what_is_usable() -> None:
    """79.16 GiB free, half of it used, 0.4 of that for graphs: 23.75 GiB for the cache."""
    asked = problem(free="79.16GiB", utilization=0.5, graphs={"fraction": 0.4})
    (rank,) = plan(asked).ranks
    assert round(rank.quota * 100 / GIB) == 2375
    assert (rank.bound, list(oracle.check(asked, plan(asked)))) == ("utilization", [])
    (line,) = [line for line in rank.ledger if line.consumer == "graphs"]
    assert (line.note, line.source) == ("2/5 of what is usable", "estimated")
    usable = 7916 * GIB // 100 // 2
    assert line.bytes == -(-usable * 2 // 5)
    assert rank.quota == usable - line.bytes


def test_every_other_term_comes_off_first() -> None:
    terms = {"total": 1000, "utilization": 0.9, "peak_torch": 300, "other": {"nccl": 40}}
    assert quota(**terms, safety=50, connector=10, graphs={"fraction": 0.5}) == 250
    assert quota(**terms, graphs={"fraction": "1/3"}) == 560 - 187  # 186.67, rounded up
    assert quota(**terms, graphs={"fraction": 0}) == quota(**terms) == 560
    assert quota(**terms, graphs={"fraction": 1}) == 0


def test_nothing_usable_has_no_graphs() -> None:
    short = {"total": 100, "utilization": 0.5, "peak_torch": 80, "graphs": {"fraction": 0.5}}
    assert quota(**short) == -30
    assert RankMemory.model_validate(short).graphs_bytes == 0


def test_the_physical_share_stays() -> None:
    memory = {"total": 1000, "free": 200, "utilization": 0.9, "graphs": {"fraction": 0.5}}
    assert quota(**memory) == 200


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ({"fraction": 1.5}, "graphs.fraction"),
        ({"fraction": -0.1}, "graphs.fraction"),
        ({"share": 0.5}, "graphs"),
        ("lots", "graphs"),
        ("20GiB", "graphs of at most total"),
    ],
)
def test_bad_fractions_are_refused(graphs: Any, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        problem(total="10GiB", utilization=0.9, graphs=graphs)


def test_it_survives_a_round_trip() -> None:
    asked = problem(total=2**36, utilization=0.9, graphs={"fraction": "2/5"})
    again = Problem.model_validate(asked.model_dump(mode="json"))
    assert again.ranks[0].quota_bytes == asked.ranks[0].quota_bytes
