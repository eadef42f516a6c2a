"""The check of plans: what it reads, what it takes beside a problem, and that it is quick."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import CheckFailed, Problem
from kvplan.models.demands import Batch
from kvplan.models.ranks import Rank
from kvplan.solver import Planner, check, plan, solve_confirmed
from kvplan.solver.check import Check, Decisions
from kvplan.solver.check.needs import BatchNeed, Rule, own_blocks
from kvplan.solver.check.phase_bytes import quota_of
from kvplan.solver.oracle import check as replay
from kvplan.solver.oracle import memory
from support.micro import micro, one, pool

MIB, GIB = 2**20, 2**30
NOBODY = Decisions((0,), (), None, (), None, None, None)


def decided(**fields: Any) -> Decisions:
    return NOBODY._replace(**fields)


def test_it_imports_the_models_and_nothing_of_the_search() -> None:
    folder = Path(check.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                if name.startswith("kvplan"):
                    assert name.startswith(("kvplan.models", "kvplan.solver.check")), path


@pytest.mark.parametrize(
    ("sections", "decisions", "broken"),
    [
        (one(12), decided(blocks=(3,)), []),
        (one(12), decided(blocks=(2,)), ["pool p has 2 usable blocks, 3 are needed"]),
        (pool(reserved_blocks=2) | one(12), decided(blocks=(5,)), []),
        (
            pool(reserved_blocks=2) | one(12),
            decided(blocks=(4,)),
            ["pool p has 2 usable blocks, 3 are needed"],
        ),
        (
            one(12, fit="capacity", count=2),
            decided(blocks=(6,), fitted=((12, 3),)),
            ["q asks for 2, which may not become 3"],
        ),
        (
            {"prefill": {"requested": 10, "min": 2, "step": 3}},
            decided(chunk=6),
            ["a chunk of 6 tokens is not a candidate"],
        ),
        ({"prefill": {"requested": 10, "min": 2, "step": 3}}, decided(chunk=8), []),
        ({"prefill": {"requested": 10, "min": 2, "step": 3}}, decided(chunk=10), []),
        ({"prefill": {"requested": 9, "chunks": [4]}}, decided(chunk=4), []),
        ({}, decided(chunk=4), ["a chunk of 4 tokens is not a candidate"]),
        (
            {},
            decided(slots=1),
            ["1 expert slots, None of them in prefill: expected both or neither"],
        ),
        (
            one(12) | {"fill": {"batch": "b"}},
            decided(blocks=(7,), copies=3),
            ["the blocks hold 2 copies of the fill batch, not 3"],
        ),
        (
            {"choices": [{"name": "way", "options": [{"name": "best"}]}]},
            decided(options=(1,)),
            ["choice way has no option 1"],
        ),
        (
            {"fill": {"shares": {"p": "1/2"}}},
            decided(blocks=(6,)),
            ["pool p takes 60 of 100 B on r0, above 1/2"],
        ),
    ],
)
def test_each_rule_is_named(sections: Any, decisions: Decisions, broken: list[str]) -> None:
    assert Check(micro(100, **sections)).broken(decisions) == broken


def test_other_quotas_are_an_argument() -> None:
    kept = Check(micro(100))
    assert kept.broken(decided(blocks=(10,))) == []
    over = "rank r0 exceeds its quota by 1 B in"
    assert kept.broken(decided(blocks=(10,)), (99,)) == [f"{over} prefill", f"{over} decode"]
    assert kept.broken(decided(blocks=(20,)), (200,)) == []


def drawn_memory(rng: random.Random) -> dict[str, Any]:
    """Readings by any rules: shares of total and of free, graphs in bytes or as a fraction."""
    total, free = rng.randrange(50, 200), rng.randrange(0, 50)
    terms = ("peak_torch", "non_torch", "connector", "graphs")
    drawn: dict[str, Any] = {name: rng.randrange(9) for name in rng.sample(terms, 2)}
    drawn |= {"other": {"nccl": rng.randrange(9)}, "utilization": f"{rng.randrange(1, 9)}/9"}
    if rng.random() < 0.5:
        drawn["graphs"] = {"fraction": f"{rng.randrange(8)}/7"}
    if rng.random() < 0.5:
        whole = {"safety": {"fraction": "1/30"}, "prefill_headroom": {"fraction": "1/20"}}
        drawn |= {"total": total, **whole}
    if rng.random() < 0.5 or "total" not in drawn:
        drawn["free"] = free
    return drawn


def test_the_quota_of_readings_is_stated_again() -> None:
    rng, quotas = random.Random(147), set()
    for _ in range(500):
        rank = Rank.model_validate({"name": "r", "memory": drawn_memory(rng)})
        quotas.add(rank.quota_bytes)
        assert quota_of(rank) == rank.quota_bytes == memory.quota_of(rank).bytes
    assert min(quotas) < 0 < max(quotas)


def test_granules_and_floors_of_a_resize_are_held() -> None:
    problem = micro(3 * GIB, pools=[{"name": "p", "bytes": MIB, "granule": "auto"}])
    held: dict[str, Any] = {"granules": {"r0": 32 * MIB}, "floors": {"p": 4}}
    assert Check(problem).broken(decided(blocks=(1,)), (4 * MIB,)) == []
    assert Check(problem, **held).broken(decided(blocks=(4,)), (32 * MIB,)) == []
    few, large = Check(problem, **held).broken(decided(blocks=(3,)), (31 * MIB,))[:2]
    assert few == "pool p has 3 usable blocks, 4 are needed"
    assert large.startswith("rank r0 exceeds its quota by 1_048_576 B")


@pytest.mark.parametrize("quota", [2 * GIB - 1, 2 * GIB, 5 * GIB, 16 * GIB, 40 * GIB])
def test_resized_plans_pass_on_both_sides_of_a_granule_step(quota: int) -> None:
    pools = [{"name": "p", "bytes": MIB + 1, "granule": "auto"}]
    problem = micro(9 * GIB, pools=pools, **one(4000, fit="capacity"))
    for answer in (plan(problem), Planner(problem).plan(quota=quota)):
        assert answer.resize(quota).blocks["p"] > 0
    smaller = problem.model_validate(
        {**problem.model_dump(), "ranks": [{"name": "r0", "quota": quota}]}
    )
    assert replay(smaller, plan(smaller)) == []


def ways(problem: Problem) -> dict[str, Callable[[], object]]:
    """Every way to a plan on the host."""
    answer, planner = plan(problem), Planner(problem)
    return {
        "auto": lambda: plan(problem),
        "bisect": lambda: plan(problem, solver="bisect"),
        "cp-sat": lambda: plan(problem, solver="cp-sat"),
        "confirmed": lambda: solve_confirmed(problem),
        "planner": planner.plan,
        "planner at a quota": lambda: planner.plan(quota=90),
        "planner at shares": lambda: planner.plan(shares={"p": 1}),
        "resize": lambda: answer.resize(110),
        "another quota": lambda: plan(micro(80, **one(60, fit="capacity"))),
    }


def assert_checked(way: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan where the check finds nothing, none where it finds something."""
    way()
    with monkeypatch.context() as patch:
        patch.setattr(Check, "broken", lambda *_: ["a rule"])
        with pytest.raises(CheckFailed, match="was not returned: a rule"):
            way()


def test_every_way_to_a_plan_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for way in ways(micro(100, **one(60, fit="capacity"))).values():
        assert_checked(way, monkeypatch)


def test_a_plan_of_a_device_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    problem = micro(100, **one(60, fit="capacity"))
    assert_checked(lambda: plan(problem, solver="bisect", device="cpu"), monkeypatch)


def drawn_rule(rng: random.Random) -> Rule:
    kind = rng.choice(("full", "live", "live", "peak", "reach"))
    return Rule(
        pool=0,
        kind=kind,
        t=rng.randint(1, 9),
        m=1,
        x=rng.choice((0, 1)),
        sink=rng.randint(0, 3),
        window=rng.randint(1, 60),
        flight=rng.randint(1, 9),
        per_batch=rng.random() < 0.3,
        state=1,
        scratch=rng.choice((None, (1, 3, 2), (0, 1, 0))) if kind == "live" else None,
    )


@pytest.mark.parametrize("scale", [1, 2**40, 2**55])
def test_many_requests_need_what_each_of_them_needs(scale: int) -> None:
    """Columns of 64 bits, and of Python integers where those could be too few.

    Some rules differ in their window alone, which is outgrown by some requests, or by none.
    """
    rng = random.Random(scale)
    for _ in range(300):
        rules, prefix = [drawn_rule(rng), drawn_rule(rng)], rng.choice((0, 0, 17))
        rules += [rules[0]._replace(window=rng.randint(1, 250) * step) for step in (1, scale)]
        rules.append(rules[2]._replace(sink=rng.randint(0, 3), window=rng.randint(1, 60)))
        loads = []
        for _ in range(rng.choice((1, 24, 40))):
            capacity = rng.randint(0, 200) * scale
            loads.append((capacity, rng.randint(0, capacity), rng.randint(0, 3)))
        rows = [{"capacity": c, "history": h, "count": n} for c, h, n in loads]
        batch = Batch.model_validate({"name": "b", "shared_prefix": prefix, "requests": rows})
        held = [load for load in loads if load[0] and load[2]]
        each = [[load[2] * own_blocks(rule, load, 0, prefix) for load in held] for rule in rules]
        apart = [rule._replace(pool=at) for at, rule in enumerate(rules)]
        assert BatchNeed(apart, len(rules), batch).given(0) == [sum(mine) for mine in each]


def test_a_kept_check_may_be_asked_again() -> None:
    """Nine pools of two buffers, 201 requests; the figures are read once."""
    names = [f"p{index}" for index in range(9)]
    pools = [{"name": n, "buffers": [{"bytes": 10}, {"bytes": 3, "granule": 7}]} for n in names]
    caches = [
        {"name": n, "pool": n, "kind": "window", "keep": "live", "window": 8 << i}
        for i, n in enumerate(names)
    ]
    request = {"name": "q", "capacity": 9000, "fit": "capacity"}
    peers = [{"capacity": 10 + index} for index in range(200)]
    batches = [{"name": "b", "requests": [request, *peers]}]
    kept = Check(micro(10**9, pools=pools, caches=caches, batches=batches))
    decisions = decided(blocks=(20_000,) * 9, fitted=((9000, 1),))
    for _ in range(3):
        assert kept.broken(decisions) == []


def test_problems_without_pools_pass() -> None:
    problem = Problem.model_validate({"ranks": [{"name": "r", "quota": 10}]})
    assert Check(problem).broken(decided(blocks=())) == []
