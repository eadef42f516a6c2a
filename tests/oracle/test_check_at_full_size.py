"""The replay at full size: a million tokens, a thousand requests."""

import time
from typing import Any

from kvplan.models import Plan, Problem
from kvplan.solver.oracle import check
from support.micro import micro, one, pool, solved
from support.oracle_plan import plan_from


def plan_for(problem: Problem, blocks: int, floor: int) -> Plan:
    """A plan that grants every request what it asks for; its byte figures are not its own."""
    data = plan_from(micro(), solved(micro())).model_dump(mode="json")
    data["blocks"], data["floors"] = {"p": blocks}, {"p": floor}
    data["proof"]["bound"] = []
    data["requests"] = []
    for index, request in enumerate(problem.batches[0].requests):
        asked = {"capacity": request.capacity, "history": request.history_tokens, "count": 1}
        name = request.name or f"b.{index}"
        data["requests"].append(
            {"batch": "b", "name": name, **asked, "requested": asked, "reduced": False}
        )
    return Plan.model_validate(data)


def found(problem: Problem, plan: Plan) -> set[str]:
    """Rules on blocks that a plan breaks."""
    others = ("ranks", "proof")  # budgets and goals, which these plans lack
    return {each.rule for each in check(problem, plan) if not each.where.startswith(others)}


def test_one_block_less_than_the_floor_is_found() -> None:
    window = {"name": "w", "pool": "p", "kind": "window", "keep": "live", "window": 128}
    problem = micro(
        40_000 * 10,
        tokens_per_block=32,
        resume_utilization="97/100",
        caches=[{"name": "c", "pool": "p", "kind": "full"}, window],
        **one(1_048_576, fit="capacity"),
        **pool(reserved_blocks=1),
    )
    floor = -(-(32_768 + 4) * 100 // 97)
    assert found(problem, plan_for(problem, floor + 1, floor)) == set()
    assert found(problem, plan_for(problem, floor, floor)) == {"floors"}
    assert found(problem, plan_for(problem, floor + 1, floor - 1)) == {"figures"}


def test_a_thousand_requests_of_a_million_tokens_take_a_second() -> None:
    kinds: list[dict[str, Any]] = [
        {"kind": "full"},
        {"kind": "window", "window": 4096},
        {"kind": "window", "window": 1024, "keep": "live", "sink": 64},
        {"kind": "window", "window": 512, "keep": "in_flight", "in_flight": 8192},
        {"kind": "chunked", "chunk": 8192},
        {"kind": "state"},
    ]
    problem = micro(
        2**50,
        tokens_per_block=16,
        caches=[{"name": str(index), "pool": "p", **kind} for index, kind in enumerate(kinds)],
        batches=[{"name": "b", "requests": [{"capacity": 2**20 - 7 * i} for i in range(1000)]}],
    )
    plan = plan_for(problem, 2**27, 0)
    started = time.process_time()
    assert found(problem, plan) == {"figures"}
    assert time.process_time() - started < 1
