"""Scenarios by name: each is what `plan` gives for the problem written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvplan.models import Infeasible, InvalidProblem, Problem
from kvplan.solver import plan
from kvplan.solver.formulate.budgets import GIB
from kvplan.solver.sweep.by_name import Sweep, fit
from support.cases import load
from support.micro import micro, one

DATA: dict[str, Any] = {
    "ranks": [{"name": "a", "quota": "3GiB"}, {"name": "b", "quota": "5GiB"}],
    "tokens_per_block": 16,
    "resume_utilization": "0.9",
    "pools": [
        {"name": "paged", "bytes": "1MiB", "granule": "auto", "reserved_blocks": 1},
        {"name": "state", "bytes": "3MiB", "resume_headroom": False},
    ],
    "caches": [
        {"name": "full", "pool": "paged", "kind": "full"},
        {"name": "ssm", "pool": "state", "kind": "state"},
    ],
    "batches": [
        {
            "name": "chat",
            "requests": [
                {"name": "long", "capacity": 60_000, "history": 59_990, "fit": "capacity"},
                {"name": "short", "capacity": 100, "history": 80, "count": 3},
                {"name": "twin", "capacity": 100, "history": 80, "count": 2},
            ],
        }
    ],
    "prefill": {
        "requested": 900,
        "min": 200,
        "step": 200,
        "staging": [{"name": "s", "per_token": "300KiB"}],
    },
}


def changed(data: dict[str, Any], column: str, value: Any) -> dict[str, Any]:
    """The problem of one scenario, written out."""
    requests = [dict(request) for request in data["batches"][0]["requests"]]
    what, _, name = column.partition(":")
    if what == "quota":
        ranks = [
            {**rank, "quota": int(value)} if name in ("", rank["name"]) else rank
            for rank in data["ranks"]
        ]
        return {**data, "ranks": ranks}
    if what == "prefill":
        return {**data, "prefill": {**data["prefill"], "requested": int(value)}}
    if what == "resume_utilization":
        return {**data, "resume_utilization": value}
    for request in requests:
        if request["name"] == name and what == "count":
            request["count"] = int(value)
        elif request["name"] == name:
            flight = request["capacity"] - request["history"]
            request |= {"capacity": int(value), "history": max(0, int(value) - flight)}
    return {**data, "batches": [{"name": "chat", "requests": requests}]}


def assert_planned(sweep: Sweep, index: int, data: dict[str, Any]) -> None:
    """One scenario is the plan of its problem."""
    try:
        answer = plan(Problem.model_validate(data))
    except Infeasible:
        assert not sweep.feasible[index]
        return
    assert sweep.feasible[index]
    assert sweep.blocks[index].tolist() == list(answer.blocks.values())
    assert sweep.prefill[index] == (answer.prefill_chunk or 0)
    assert sweep.capacities[index, 0] == answer.requests[0].capacity


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("quota", [GIB, 2 * GIB - 1, 2 * GIB, 4 * GIB - 1, 4 * GIB, 9 * GIB, 17 * GIB, 40 * GIB]),
        ("quota:b", [0, GIB // 5, GIB, 3 * GIB + 1, 8 * GIB]),
        ("capacity:long", [11, 12, 5_000, 60_000, 70_001]),
        ("capacity:short", [0, 1, 15, 16, 17, 40_000]),
        ("count:short", [0, 1, 100, 500]),
        ("count:long", [1, 2, 3]),
        ("prefill", [200, 400, 555, 900, 901, 5_000]),
        ("resume_utilization", ["1", "0.97", "1/2", "0.31"]),
    ],
)
def test_one_column(column: str, values: list[Any]) -> None:
    sweep = fit(Problem.model_validate(DATA), {column: values})
    assert sweep.notes == ()
    for index, value in enumerate(values):
        assert_planned(sweep, index, changed(DATA, column, value))


def test_several_columns_at_once() -> None:
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "quota:a": random.integers(GIB // 2, 20 * GIB, 25),
        "quota:b": random.integers(GIB // 2, 20 * GIB, 25),
        "capacity:long": random.integers(11, 70_000, 25),
        "count:twin": random.integers(0, 9, 25),
        "prefill": random.integers(200, 1_500, 25),
    }
    sweep = fit(Problem.model_validate(DATA), columns)
    assert sweep.feasible.sum() > 0
    for index in range(25):
        data = DATA
        for column, values in columns.items():
            data = changed(data, column, values[index])
        assert_planned(sweep, index, data)


def test_what_the_batched_search_refuses_is_solved_one_by_one() -> None:
    constraints = [{"terms": {"blocks:p": 1}, "max": 7}]
    problem = micro(**one(40, fit="capacity"), constraints=constraints)
    sweep = fit(problem, {"quota": [0, 50, 100]})
    assert sweep.blocks[:, 0].tolist() == [0, 5, 7]
    assert sweep.proven.tolist() == [True, True, True]
    [note] = sweep.notes
    assert "linear constraints" in note


def test_a_weighted_goal_is_solved_but_not_proven() -> None:
    goals = [{"maximize": {"blocks:p": -1, "capacity:q": 1}}]
    sweep = fit(micro(**one(40, fit="capacity"), goals=goals), {"quota": [50, 0]})
    assert sweep.feasible.tolist() == [True, False]
    assert sweep.proven.tolist() == [False, True]
    assert "weighted goal" in sweep.notes[0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"quotas": [1]}, r"vary.quotas: expected one of capacity:q"),
        ({"quota": [1], "count:q": [1, 2]}, r"columns of one length, got lengths \[1, 2\]"),
        ({"prefill": [1]}, "vary.prefill"),
        ({"quota": [0.5]}, "vary.quota: expected whole numbers"),
        ({"quota": [2**64]}, "vary.quota: expected whole numbers"),
        ({}, "at least one scenario"),
    ],
)
def test_columns_that_make_no_sense(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        fit(micro(**one(20)), columns)


def test_progress_and_the_fused_kernel_where_it_takes_the_problem() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="triton is not installed")
    problem = load("kimi_k3_trade")
    quotas = [
        rank.quota_bytes * share // 10 for share in range(1, 12) for rank in problem.ranks[:1]
    ]
    done: list[tuple[int, int]] = []
    fused = fit(
        problem, {"quota": quotas}, device="cpu", kernel="triton",
        progress=lambda *at: done.append(at),
    )  # fmt: skip
    plain = fit(problem, {"quota": quotas})
    assert fused.notes == plain.notes == ()
    assert done == [(11, 11)]
    for name, column in vars(plain).items():
        assert name == "notes" or np.array_equal(getattr(fused, name), column)


def test_the_fused_kernel_without_a_device_leaves_it_to_the_arrays() -> None:
    problem = micro(**one(40, fit="capacity"))
    found = fit(problem, {"quota": [0, 50, 100]}, kernel="triton")
    assert found.notes == ("arrays instead of the fused kernel: it runs on a device alone",)
    assert found.capacities.tolist() == fit(problem, {"quota": [0, 50, 100]}).capacities.tolist()
