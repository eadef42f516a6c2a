"""Columns by name: what `plan` refuses is refused, and what it answers is answered."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.solver import Planner, plan
from kvplan.solver.sweep.by_name import fit

DATA: dict[str, Any] = {
    "ranks": [{"name": "a", "quota": 4000}],
    "tokens_per_block": 16,
    "pools": [{"name": "p", "bytes": 10}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [
        {
            "name": "chat",
            "requests": [
                {"name": "long", "capacity": 600, "fit": "capacity", "min_capacity": 50},
                {"name": "short", "capacity": 100, "history": 80, "count": 3},
                {"name": "twin", "capacity": 10},
            ],
        },
        {
            "name": "many",
            "requests": [
                {"name": "slots", "capacity": 90, "history": 70, "fit": "count", "min_count": 2},
                {"name": "twin", "capacity": 20},
            ],
        },
    ],
    "prefill": {"requested": 900, "min": 200, "step": 200},
}


@pytest.mark.parametrize(
    "column",
    [
        {"quota": "10GiB"},
        {"quota": 5},
        {"quota": np.array(5)},
        {"quota": np.zeros((2, 2), dtype=np.int64)},
        {"quota": iter([1])},
        {"quota": {1, 2}},
        {"quota": [[1, 2]]},
        {"quota": [True, 5]},
        {"quota": [7, -5]},
        {"quota": [-(2**63)]},
        {"prefill": [400, 0]},
        {"prefill": [-1]},
        {"prefill": [2**62]},
        {"capacity:long": [49]},
        {"capacity:short": [-1]},
        {"capacity:slots": [19]},
        {"capacity:slots": [-1]},
        {"capacity:twin": [5]},
        {"count:long": [-1]},
        {"count:short": [3, -1]},
        {"count:slots": [1]},
        {"resume_utilization": "0.97"},
        {"resume_utilization": 0.97},
        *(
            {"resume_utilization": ["1/2", value]}
            for value in (0, 1.5, -0.5, "x", "1/0", True, None, float("nan"), "0." + "1" * 25)
        ),
        {"resume_utilization": [Fraction(10**20 + 1, 10**21)]},
    ],
)
def test_figures_that_plan_refuses(column: dict[str, Any]) -> None:
    with pytest.raises(InvalidProblem, match=next(iter(column)).partition(":")[0]):
        fit(Problem.model_validate(DATA), column)


def test_no_such_device_or_kernel() -> None:
    problem = Problem.model_validate(DATA)
    with pytest.raises(InvalidProblem, match="kernel: expected arrays or triton"):
        fit(problem, {"quota": [1]}, kernel="tritom")
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(InvalidProblem, match="device: expected a device that torch has here"):
        fit(problem, {"quota": [1]}, device="nowhere")


def test_a_capacity_that_cannot_shrink_is_given() -> None:
    """At its least a fitted request is a fixed one, as `plan` takes it."""
    values = [50, 51, 60]
    sweep = fit(Problem.model_validate(DATA), {"capacity:long": values, "quota": [400] * 3})
    for index, value in enumerate(values):
        chat, many = DATA["batches"]
        long = {**chat["requests"][0], "capacity": value}
        batches = [{**chat, "requests": [long, *chat["requests"][1:]]}, many]
        ranks = [{"name": "a", "quota": 400}]
        answer = plan(Problem.model_validate({**DATA, "batches": batches, "ranks": ranks}))
        assert sweep.capacities[index, 0] == answer.requests[0].capacity == value
        assert sweep.blocks[index].tolist() == [answer.blocks["p"]]


@pytest.mark.parametrize("count", [0, 1])
def test_a_fitted_request_may_have_no_copy(count: int) -> None:
    requests = [
        {"name": "long", "capacity": 600, "fit": "capacity", "count": count},
        {"name": "short", "capacity": 100},
    ]
    data = {**DATA, "batches": [{"name": "chat", "requests": requests}]}
    counts = [0, 1, 2]
    sweep = fit(Problem.model_validate(data), {"count:long": counts, "quota": [300] * 3})
    for index, count in enumerate(counts):
        requests[0]["count"] = count
        written = Problem.model_validate({**data, "ranks": [{"name": "a", "quota": 300}]})
        answer = plan(written)
        assert sweep.capacities[index].tolist() == [answer.requests[0].capacity]
        assert sweep.blocks[index].tolist() == [answer.blocks["p"]]


def test_a_quota_takes_the_place_of_readings_and_headroom() -> None:
    memory = {"total": 1000, "free": 900, "utilization": 1, "prefill_headroom": "from_staging"}
    prefill = {"requested": 20, "min": 5, "step": 5, "staging": [{"name": "s", "per_token": 10}]}
    consumers = [{"name": "c", "bytes": 200, "phases": ["decode"]}]
    batches = [{"name": "b", "requests": [{"capacity": 16}]}]
    data = {**DATA, "prefill": prefill, "consumers": consumers, "batches": batches}
    ranks = [{"name": "a", "memory": memory}, {"name": "b", "memory": memory}]
    problem = Problem.model_validate({**data, "ranks": ranks})
    planner = Planner(problem)
    quotas = [300, 600, 900]
    for columns in ({"quota": quotas}, {"quota:b": quotas}):
        sweep = fit(problem, columns)
        for index, quota in enumerate(quotas):
            given = quota if "quota" in columns else {"b": quota}
            assert sweep.blocks[index].tolist() == [planner.plan(quota=given).blocks["p"]]
