"""--advise: the best plan under lowered floors, in the order that the user states."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import oracle, plan
from kvplan.solver.relaxed import relaxed_plan

DATA: dict[str, Any] = {
    "ranks": [{"name": "r0", "quota": 1000}],
    "tokens_per_block": 1,
    "pools": [{"name": "kv", "bytes": 1}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [{"name": "b", "requests": [{"name": "q", "capacity": 400, "count": 2}]}],
    "experts": {"slot_bytes": 10, "min_slots": 30, "max_slots": 60},
    "prefill": {"requested": 200, "min": 100, "staging": [{"name": "s", "per_token": 2}]},
}
# 800 for the requests, 300 for the slots, 200 for the chunk: 300 too many.


def relaxed(*relax: str, **parts: Any) -> dict[str, Any]:
    problem = Problem.model_validate({**DATA, **parts, "relax": list(relax)})
    with pytest.raises(Infeasible):
        plan(problem)
    answer = relaxed_plan(problem, solver="auto")
    if answer is None:
        return {}
    violated = {violation.rule for violation in oracle.check(problem, answer)}
    assert violated, "the plan is not what was asked for, and the oracle sees it"
    request = answer.requests[0]
    return {
        "relaxed": answer.relaxed,
        "experts": answer.expert_slots,
        "prefill": answer.prefill_chunk,
        "capacity": request.capacity,
        "count": request.count,
    }


def test_the_first_floor_is_lowered_only_as_far_as_it_must() -> None:
    found = relaxed("experts", "prefill")
    assert found["relaxed"] == ("experts: floor 30 lowered to 0",)
    assert (found["experts"], found["prefill"]) == (0, 100)


def test_a_later_floor_is_lowered_less_than_those_before_it() -> None:
    found = relaxed("prefill", "experts")
    assert found["relaxed"] == (
        "prefill: floor 100 lowered to 5",
        "experts: floor 30 lowered to 19",
    )
    assert (found["experts"], found["prefill"]) == (19, 5), "what is left goes to the chunk"


def test_a_floor_that_need_not_move_stays() -> None:
    found = relaxed("prefill", "count:q")
    assert found["relaxed"] == ("count:q: floor 2 lowered to 1",)
    assert (found["count"], found["prefill"]) == (1, 150), "without it the chunk would be below 1"


def test_capacities_shrink_as_if_they_were_fitted() -> None:
    found = relaxed("capacity:q")
    assert found["relaxed"] == ("capacity:q: floor 400 lowered to 250",)
    assert (found["capacity"], found["count"]) == (250, 2)


def test_blocks_are_floors_too() -> None:
    pools = [{"name": "kv", "bytes": 1, "min_blocks": 900}]
    assert relaxed("blocks:kv", "experts", pools=pools)["relaxed"] == (
        "blocks:kv: floor 900 lowered to 800",
        "experts: floor 30 lowered to 0",
    )


def test_where_no_floor_helps_there_is_no_plan() -> None:
    assert relaxed("prefill") == {}
    assert relaxed() == {}


def test_floors_of_fitted_requests() -> None:
    request = {"name": "q", "capacity": 900, "fit": "capacity", "min_capacity": 700}
    batches = [{"name": "b", "requests": [request]}]
    assert relaxed("capacity:q", batches=batches)["relaxed"] == (
        "capacity:q: floor 700 lowered to 500",
    )


@pytest.mark.parametrize(
    ("prefill", "bounds", "expected"),
    [
        ({"requested": 90, "min": 60, "step": 20}, (71, 72), (52, 72)),
        ({"requested": 90, "chunks": [60, 90]}, (20, 40), (40, 40)),
        ({"requested": 90, "min": 60}, (20, 40), (40, 40)),
    ],
)
def test_a_chunk_floor_under_a_constraint(
    prefill: dict[str, Any], bounds: tuple[int, int], expected: tuple[int, int]
) -> None:
    least, most = bounds
    constraints = [{"terms": {"prefill": 1}, "min": least, "max": most}]
    experts = {"slot_bytes": 1, "max_slots": 1}
    found = relaxed("prefill", prefill=prefill, constraints=constraints, experts=experts)
    assert found["relaxed"] == (f"prefill: floor 60 lowered to {expected[0]}",)
    assert found["prefill"] == expected[1]
