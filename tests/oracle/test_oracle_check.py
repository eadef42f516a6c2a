"""The replay: a right plan passes, and a plan with any one figure changed does not."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from kvplan.models import Plan, Problem
from kvplan.solver.oracle import Violation, best, check
from support.instances import small_problem
from support.micro import solved
from support.oracle_plan import plan_from

RICH: dict[str, Any] = {
    "ranks": [
        {"name": "r0", "quota": 560},
        {
            "name": "r1",
            "stage": 1,
            "memory": {
                "total": 1400,
                "utilization": "1/2",
                "free": 610,
                "prefill_headroom": "from_staging",
            },
        },
    ],
    "tokens_per_block": 4,
    "resume_utilization": "19/20",
    "pools": [
        {"name": "a", "bytes": {"0": 10, "1": 8}, "granule": 16, "reserved_blocks": 1},
        {"name": "b", "bytes": 7, "multiple_of": 2, "min_blocks": 3, "max_blocks": 9},
    ],
    "caches": [
        {"name": "f", "pool": "a", "kind": "full"},
        {"name": "w", "pool": "a", "kind": "window", "keep": "live", "window": 6},
        {"name": "s", "pool": "b", "kind": "state", "blocks": 2},
    ],
    "batches": [
        {
            "name": "long",
            "requests": [
                {"name": "q", "capacity": 60, "fit": "capacity", "min_capacity": 8},
                {"name": "n", "capacity": 6, "count": 9, "fit": "count", "min_count": 2},
            ],
        },
        {"name": "short", "requests": [{"name": "k", "capacity": 5, "count": 2}]},
    ],
    "prefill": {
        "requested": 16,
        "min": 4,
        "step": 4,
        "staging": [{"name": "s", "base": 20, "per_token": 2}],
    },
    "experts": {
        "slot_bytes": 20,
        "min_slots": 1,
        "max_slots": 9,
        "lend": {"keep": 1, "fraction": "1/2"},
    },
    "consumers": [{"name": "w", "bytes": 40}],
    "choices": [{"name": "way", "options": [{"name": "x", "bytes": 50}, {"name": "y"}]}],
    "constraints": [{"terms": {"blocks:a": 1, "capacity:q": "-1/4"}, "min": -20, "max": 14}],
    "goals": ["experts", {"maximize": {"count:n": 1, "prefill": "1/2"}}],
    "fill": {"batch": "short"},
}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem.model_validate(RICH)


@pytest.fixture(scope="module")
def plan(problem: Problem) -> Plan:
    return plan_from(problem, solved(problem))


def test_the_best_plan_passes(problem: Problem, plan: Plan) -> None:
    assert check(problem, plan) == []
    assert plan.requests[0].reduced  # or the mutations below would prove less


def changed(plan: Plan, path: str, value: Any) -> Plan:
    """The plan with one figure replaced; a function changes the old one."""
    data = plan.model_dump(mode="json")
    *holders, last = (int(key) if key.isdigit() else key for key in path.split("."))
    place: Any = data
    for key in holders:
        place = place[key]
    place[last] = value(place[last]) if callable(value) else value
    return Plan.model_validate(data)


MUTATIONS = [
    ("blocks.a", lambda n: n - 1, "figures"),
    ("blocks.a", lambda n: n - 3, "floors"),
    ("blocks.a", lambda n: n + 9, "quota"),
    ("blocks.a", 1, "structural"),
    ("blocks.a", lambda n: n + 9, "constraints"),
    ("blocks.a", -5, "floors"),
    ("blocks.b", lambda n: n + 1, "blocks"),
    ("blocks.b", 10, "blocks"),
    ("blocks.b", 2, "blocks"),
    ("floors.a", lambda n: n + 1, "figures"),
    ("floors.b", lambda n: n - 2, "figures"),
    ("prefill_chunk", 7, "chunk"),
    ("prefill_chunk", None, "chunk"),
    ("prefill_chunk", 20, "chunk"),
    ("expert_slots", 0, "experts"),
    ("expert_slots", 10, "experts"),
    ("expert_slots", None, "experts"),
    ("expert_slots_in_prefill", None, "experts"),
    ("expert_slots_in_prefill", lambda n: n - 1, "figures"),
    ("expert_slots_in_prefill", 0, "experts"),
    ("expert_slots_in_prefill", 10, "experts"),
    ("choices.way", "z", "choices"),
    ("choices.way", lambda name: "xy".replace(name, ""), "figures"),
    ("copies", lambda n: n + 1, "figures"),
    ("copies", None, "figures"),
    ("requests.0.capacity", lambda n: n + 1, "requests"),
    ("requests.0.history", lambda n: n - 1, "requests"),
    ("requests.0.count", 2, "requests"),
    ("requests.0.requested", {"capacity": 61, "history": 59, "count": 1}, "figures"),
    ("requests.0.reduced", False, "figures"),
    ("requests.1.count", 1, "requests"),
    ("requests.1.count", 10, "requests"),
    ("requests.1.requested.count", None, "figures"),
    ("requests.2.capacity", 6, "requests"),
    ("requests.2.count", 3, "requests"),
    ("requests.2.reduced", True, "figures"),
    ("ranks.0.quota", 561, "figures"),
    ("ranks.0.used", lambda n: n - 1, "figures"),
    ("ranks.0.slack", lambda n: n + 1, "figures"),
    ("ranks.0.bound", "physical", "figures"),
    ("ranks.1.bound", "utilization", "figures"),
    ("ranks.0.phases.decode", lambda n: n + 1, "figures"),
    ("ranks.0.phases.load", lambda n: n + 1, "figures"),
    ("ranks.0.ledger.0.bytes", lambda n: n + 1, "figures"),
    ("ranks.0.ledger.2.phases", ["load"], "figures"),
    ("ranks.0.ledger", [], "figures"),
    ("proof.bound.0.value", lambda worth: f"{worth}1", "figures"),
    ("proof.bound.0.bound", lambda worth: f"-{worth}", "figures"),
    ("blocks", {"a": 20}, "names"),
    ("floors", {"a": 20, "b": 4, "c": 1}, "names"),
    ("choices", {}, "names"),
    ("requests.0.name", "other", "names"),
    ("requests.0.batch", "short", "names"),
    ("requests.1.name", "q", "names"),
    ("requests", lambda listed: listed[1:], "names"),
    ("ranks.1.name", "r0", "names"),
    ("ranks", lambda listed: listed[:1], "names"),
    ("ranks.0.phases", {"prefill": 0, "decode": 0}, "names"),
    ("binding", [{"rank": "r9", "phase": "load", "slack": 0, "next": {}}], "names"),
    ("binding", [{"rank": "r0", "phase": "draft", "slack": 0, "next": {}}], "names"),
]


@pytest.mark.parametrize(("path", "value", "rule"), MUTATIONS)
def test_one_changed_figure_is_found(
    problem: Problem, plan: Plan, path: str, value: Any, rule: str
) -> None:
    mutated = changed(plan, path, value)
    assert mutated != plan
    assert rule in {violation.rule for violation in check(problem, mutated)}


def test_a_smaller_request_that_is_legal_changes_what_is_needed(
    problem: Problem, plan: Plan
) -> None:
    shorter = changed(plan, "requests.0.capacity", lambda n: n - 4)
    shorter = changed(shorter, "requests.0.history", lambda n: n - 4)
    found = check(problem, shorter)
    assert {violation.rule for violation in found} == {"figures"}
    assert any(violation.where == "floors[a]" for violation in found)


def test_staging_as_headroom(problem: Problem, plan: Plan) -> None:
    living = [line for line in plan.ranks[1].ledger if "decode" in line.phases]
    used = sum(line.bytes for line in living if line.consumer != "prefill_headroom")
    assert plan.prefill_chunk is not None
    staged = 20 + 2 * plan.prefill_chunk
    for spare, broken in ((0, False), (-1, True)):
        data = copy.deepcopy(RICH)
        memory = data["ranks"][1]["memory"]
        memory["free"] = max(used + staged, plan.ranks[1].phases["prefill"]) + spare
        found = check(Problem.model_validate(data), plan)
        assert ("physical" in {violation.rule for violation in found}) == broken


def test_violations_read_well(problem: Problem, plan: Plan) -> None:
    mutated = changed(plan, "blocks.b", 10)
    lines = [str(violation) for violation in check(problem, mutated)]
    assert "blocks: b: expected at most 9 usable, got 10 less 0 reserved" in lines
    assert Violation("a", "b", "c") == ("a", "b", "c")


def malformed() -> Iterator[tuple[str, Any]]:
    for path in ("requests.0.capacity", "requests.0.history", "requests.0.count", "blocks.a"):
        for value in (-1, 0, 2**70, -(2**70)):
            yield path, value
    for path in ("prefill_chunk", "expert_slots", "expert_slots_in_prefill", "copies", "floors.b"):
        for value in (-1, 2**70):
            yield path, value
    yield "proof.bound", [{"goal": "nonsense:x", "value": 1, "bound": None}]


@pytest.mark.parametrize(("path", "value"), list(malformed()))
def test_a_malformed_plan_raises_nothing(
    problem: Problem, plan: Plan, path: str, value: Any
) -> None:
    found = check(problem, changed(plan, path, value))
    assert found


@pytest.mark.parametrize("value", [None, "x", 1.5, (1,), [], {}, object()])
def test_fields_of_another_type_are_reported(problem: Problem, plan: Plan, value: Any) -> None:
    for field in ("blocks", "requests", "ranks", "proof", "floors"):
        fits = value in ([], {}) and field != "proof"
        found = check(problem, plan.model_copy(update={field: value}))
        assert found, (field, value)
        assert fits or found[0].rule == "type", (field, value)
    nested = plan.requests[0].model_copy(update={"capacity": "many"})
    [violation] = check(problem, plan.model_copy(update={"requests": (nested,)}))
    assert str(violation).startswith("type: requests[0].capacity: expected ")


def test_every_best_plan_passes() -> None:
    passed = 0
    for seed in range(150):
        problem = small_problem(seed)
        found = best(problem)
        if found is not None:
            assert check(problem, plan_from(problem, found)) == [], seed
            passed += 1
    assert passed > 75
