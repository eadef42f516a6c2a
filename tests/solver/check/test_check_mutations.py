"""Each rule of the search broken in turn: the check finds it out, and no wrong plan is returned.

Rules are broken where the search reads them: in the instance, and in the functions of need and
bytes. The check reads neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest

from kvplan.kernels import bytes as rules_of_bytes
from kvplan.kernels import need as rules_of_need
from kvplan.kernels.instance import FLIGHT, LIVE, PEAK, CacheRule, Instance, PoolRule
from kvplan.models import CheckFailed, Infeasible, InvalidProblem, Plan, Problem, SolverError
from kvplan.solver import Planner
from kvplan.solver.formulate import formulation
from kvplan.solver.oracle import check
from support.instances import random_problem, small_problem
from support.straight import straight_problem

Change = Callable[[Instance], Instance]
MEMORY = {"total": 1000, "free": 700, "utilization": 1, "prefill_headroom": "from_staging"}
STAGING = [{"name": "s", "per_token": 10}]


def drawn(seed: int) -> Problem:
    """A small problem; in every other one nothing is filled, so that floors are what is planned."""
    data = random_problem(seed, constraints=False, weighted=False)
    return Problem.model_validate(data | ({"fill": "none"} if seed % 2 else {}))


def written() -> list[Problem]:
    """What random problems hardly meet."""
    base: dict[str, Any] = {
        "ranks": [{"name": "r0", "quota": 1000}],
        "tokens_per_block": 4,
        "pools": [{"name": "p", "bytes": 10}, {"name": "q", "bytes": 10}],
        "caches": [
            {"name": "f", "pool": "p", "kind": "full"},
            {"name": "w", "pool": "q", "kind": "window", "window": 8, "keep": "live"},
        ],
    }
    one = {"batches": [{"name": "b", "requests": [{"name": "r", "capacity": 40}]}]}
    shared = [{"name": f"r{i}", "capacity": 40, "history": 39} for i in range(3)]
    scratch = {**base["caches"][1], "scratch": {"fraction": "1/2", "max_rewind": 4}}
    prompt = [{"name": "r", "capacity": 41, "history": 0}]
    prefill = {"requested": 40, "min": 4, "step": 6, "staging": STAGING}
    scores = {"name": "s", "per_token_context": "1/2", "request": "r"}
    followed = {"requested": 41, "chunks": [20], "staging": [scores]}
    measured = [{"name": "r0", "memory": MEMORY}]
    decoding = [{"name": "c", "bytes": 350, "phases": ["decode"]}]
    bound = {"terms": {"blocks:p": 1, "blocks:q": -1}, "max": 3}
    sections: list[dict[str, Any]] = [
        one | {"fill": "none", "resume_utilization": "3/5"},
        one | {"fill": {"shares": {"p": "1/4", "q": "1/3"}}},
        one | {"constraints": [bound]},
        one | {"consumers": [{"name": "c", "bytes": 1001, "phases": ["load"]}]},
        one | {"fill": {"batch": "b"}},
        {"batches": [{"name": "b", "shared_prefix": 16, "requests": shared}], "fill": "none"},
        {
            "batches": [{"name": "b", "requests": prompt}],
            "caches": [base["caches"][0], scratch],
            "fill": "none",
        },
        one | {"ranks": measured, "prefill": prefill, "consumers": decoding},
        one | {"prefill": followed, "fill": "none"},
        one | {"consumers": [{"name": "g", "bytes": 1, "per_request": 601}], "fill": "none"},
        {"prefill": prefill, "experts": {"slot_bytes": 30, "max_slots": 20, "lend": {"keep": 4}}},
    ]
    return [Problem.model_validate({**base, **section}) for section in sections]


def straight(seeds: range) -> Iterator[Problem]:
    """Problems of the common kind; what cannot shrink is refused."""
    for seed in seeds:
        with suppress(InvalidProblem):
            yield straight_problem(seed)


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return [*written(), *map(drawn, range(120)), *straight(range(60))]


def planned(problem: Problem) -> Plan | None:
    """A plan by rules that are read now; None where the search finds none, or fails."""
    try:
        return Planner(problem).plan(solver="bisect")
    except CheckFailed:
        raise
    except (Infeasible, InvalidProblem, SolverError):
        return None


def broken_rules(problem: Problem, plan: Plan) -> list[str]:
    """What the oracle says of the decisions; figures beside them are the broken search's own."""
    return [str(found) for found in check(problem, plan) if found.rule != "figures"]


# --- rules in the instance --------------------------------------------------------------------


def caches(**fields: Any) -> Change:
    """Fields of every cache rule, given or computed from the rule."""
    return lambda instance: instance._replace(
        caches=tuple(rule._replace(**worked(rule, fields)) for rule in instance.caches)
    )


def pools(**fields: Any) -> Change:
    """Fields of every pool rule, given or computed from the rule."""
    return lambda instance: instance._replace(
        pools=tuple(rule._replace(**worked(rule, fields)) for rule in instance.pools)
    )


def worked(rule: CacheRule | PoolRule, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: each(rule) if callable(each) else each for name, each in fields.items()}


def budgets(where: Callable[[Any], bool] = lambda row: True, **fields: Any) -> Change:
    """Fields computed from some of the budgets that are searched."""

    def changed(row: Any) -> Any:
        return row._replace(**{name: each(row) for name, each in fields.items()})

    return lambda instance: instance._replace(
        budgets=tuple(changed(row) if where(row) else row for row in instance.budgets)
    )


def forgotten(where: Callable[[Any], bool]) -> Change:
    """Budgets that bind no more; without any, a search might not end."""
    return budgets(where, limit_bytes=lambda row: 2 * row.quota)


def experts(**fields: Any) -> Change:
    def change(instance: Instance) -> Instance:
        rule = instance.experts
        return instance._replace(experts=rule and rule._replace(**fields))

    return change


def batches(**fields: Any) -> Change:
    """Fields computed from every batch."""
    return lambda instance: instance._replace(
        batches=tuple(
            batch._replace(**{name: each(batch) for name, each in fields.items()})
            for batch in instance.batches
        )
    )


def without_last_batch(instance: Instance) -> Instance:
    last = len(instance.batches) - 1
    return batches(fixed=lambda b: () if b is instance.batches[last] else b.fixed)(instance)


def single(batch: Any) -> Any:
    return tuple(each._replace(requests=1) for each in batch.fixed)


def one_more_chunk(instance: Instance) -> Instance:
    """A chunk that is no candidate, as cheap as the last one."""
    if instance.chunks == (0,) or instance.has_contexts:
        return instance
    chunks = (*instance.chunks, instance.chunks[-1] + 1)
    searched, told = (
        tuple(row._replace(staging=(*row.staging, *row.staging[-1:])) for row in rows)
        for rows in (instance.budgets, instance.every_budget)
    )
    return instance._replace(chunks=chunks, budgets=searched, every_budget=told)


def smooth(row: Any) -> Any:
    return tuple(tuple((size, 1) for size, _ in buffers) for buffers in row.pools)


def first_buffers(row: Any) -> Any:
    return tuple(buffers[:1] for buffers in row.pools)


def without_context(workspace: Any) -> Any:
    parts = [part._replace(slopes=(0,) * len(part.slopes)) for part in workspace.parts]
    return workspace._replace(parts=tuple(parts))


def running_for_nothing(instance: Instance) -> Instance:
    return caches(state_blocks=0)(instance) if instance.runs else instance


def of_kind(kind: int, field: str, value: Any) -> Callable[[CacheRule], Any]:
    return lambda rule: value(rule) if rule.kind == kind else getattr(rule, field)


IN_THE_INSTANCE: dict[str, Change] = {
    "a rank forgotten": forgotten(lambda row: row.rank == 0),
    "prefill forgotten": forgotten(lambda row: row.phase == "prefill"),
    "decode forgotten": forgotten(lambda row: row.phase == "decode"),
    "load forgotten": forgotten(lambda row: row.phase == "load"),
    "a quota with a byte too many": budgets(limit_bytes=lambda row: row.limit_bytes + 1),
    "consumers ignored": budgets(limit_bytes=lambda row: row.quota),
    "granules ignored": budgets(pools=smooth),
    "a buffer ignored": budgets(pools=first_buffers),
    "staging ignored": budgets(staging=lambda row: ()),
    "contexts ignored": budgets(
        staging=lambda row: (), workspaces=lambda row: tuple(map(without_context, row.workspaces))
    ),
    "running requests ignored": running_for_nothing,
    "headroom ignored": forgotten(lambda row: row.staging and row.phase != "prefill"),
    "options for nothing": budgets(options=lambda row: tuple((0,) * len(o) for o in row.options)),
    "layers ignored": budgets(layers=lambda row: min(row.layers, 1)),
    "reserved ignored": pools(reserved=0),
    "multiple ignored": pools(multiple=1),
    "most ignored": pools(most=None),
    "least and structural floor ignored": pools(least=0),
    "utilization ignored": pools(use_num=1, use_den=1),
    "utilization inverted": pools(use_num=lambda r: r.use_den, use_den=lambda r: r.use_num),
    "window short of a token": caches(reach=lambda rule: max(0, rule.reach - 1)),
    "sink dropped": caches(sink_blocks=0),
    "groups ignored": caches(groups=1),
    "extra blocks ignored": caches(extra_blocks=0),
    "blocks longer by a token": caches(block_tokens=lambda rule: rule.block_tokens + 1),
    "state ignored": caches(state_blocks=0),
    "flight of one token": caches(flight=1),
    "flight shared by all": caches(flight_per_batch=of_kind(FLIGHT, "flight_per_batch", bool)),
    "scratch for nothing": caches(scratch=lambda rule: rule.scratch and (0, 1)),
    "rewind ignored": caches(rewind=0),
    "full taken for a window": caches(
        kind=lambda rule: rule.kind or LIVE, reach=lambda rule: rule.reach or 2
    ),
    "a batch left out": without_last_batch,
    "counts ignored": batches(fixed=single),
    "prefix twice as long": batches(prefix_tokens=lambda batch: 2 * batch.prefix_tokens),
    "slots below their least": experts(least=0),
    "slots above their most": experts(most=None),
    "the granule of slots ignored": experts(granule=1),
    "every slot lent": experts(keep=0, lend_num=1, lend_den=1),
    "a chunk too many": one_more_chunk,
    "constraints dropped": lambda instance: instance._replace(constraints=()),
    "shares ignored": lambda instance: instance._replace(
        fill_shares=tuple((pool, Fraction(1)) for pool, _ in instance.fill_shares)
    ),
    "lower bounds ignored": lambda instance: instance._replace(
        fitted=tuple(each._replace(least=1) for each in instance.fitted)
    ),
}


@pytest.mark.parametrize("name", IN_THE_INSTANCE)
def test_a_broken_instance_is_found_out(
    name: str, problems: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    change = IN_THE_INSTANCE[name]
    monkeypatch.setattr(formulation, "Instance", lambda **given: change(Instance(**given)))
    assert_found_out(problems)


def assert_found_out(problems: list[Problem]) -> None:
    """The check fails on some problem, and what it lets through breaks no rule."""
    failed = 0
    for problem in problems:
        try:
            answer = planned(problem)
        except CheckFailed:
            failed += 1
            continue
        assert answer is None or broken_rules(problem, answer) == []
    assert failed


# --- functions of need and bytes --------------------------------------------------------------


def break_function(
    monkeypatch: pytest.MonkeyPatch, home: ModuleType, name: str, wrong: Callable[..., Any]
) -> None:
    """Put a function in the place of another, wherever that was imported."""
    right = getattr(home, name)
    for module in [*sys.modules.values()]:
        names = getattr(module, "__name__", "")
        if names.startswith(("kvplan.kernels", "kvplan.solver")) and (
            getattr(module, name, None) is right
        ):
            monkeypatch.setattr(module, name, wrong)


right_blocks, right_term = rules_of_need.blocks, rules_of_need.need_term


IN_NEED: dict[str, dict[str, Callable[..., Any]]] = {
    "ceil to floor": {
        "blocks": lambda term, c, h: right_blocks(term, c - term.block_tokens + 1, h)
    },
    "stale a block early": {
        "blocks": lambda term, c, h: right_blocks(term, c, h + term.block_tokens)
    },
    "one block of a window": {
        "need_term": lambda rule, flight, prefix=0: (
            right_term(rule, flight, prefix)._replace(most=1)
            if rule.kind in (PEAK, FLIGHT)
            else right_term(rule, flight, prefix)
        )
    },
    "min to max": {"lesser": lambda a, b: a + (b - a) * (b > a)},
    "a shared prefix for nothing": {"prefix_term": lambda rule, prefix: None},
    "a shared prefix in every request": {
        "need_term": lambda rule, flight, prefix=0: right_term(rule, flight, 2 * prefix)
    },
    "placeholders for nothing": {"placeholder_blocks": lambda rule: 0},
    "a batch's flight for nothing": {"batch_flight_blocks": lambda rule, flight: 0},
    "all blocks scratch": {"scratch_blocks": lambda scratch, t, c, h: -(-c // t)},
}
IN_BYTES: dict[str, dict[str, Callable[..., Any]]] = {
    "bytes of slots to floor": {"paged": lambda total, granule: total // granule * granule},
    "one slot too few": {"slot_bytes": lambda slots, sizes: max(0, slots - 1) * sizes[0][1]},
    "lending turned round": {"least_kept": lambda slots, rule: min(slots, rule.keep) and 0},
    "pages to floor": {
        "most_blocks": lambda room, buffers: room // sum(size for size, _ in buffers),
        "pool_bytes": lambda blocks, buffers: blocks * sum(size for size, _ in buffers),
    },
}


@pytest.mark.parametrize("name", [*IN_NEED, *IN_BYTES])
def test_a_broken_function_is_found_out(
    name: str, problems: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = rules_of_need if name in IN_NEED else rules_of_bytes
    for function, wrong in (IN_NEED | IN_BYTES)[name].items():
        break_function(monkeypatch, home, function, wrong)
    assert_found_out(problems)


# --- rules as they are ------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(5))
def test_right_plans_pass(part: int) -> None:
    found = 0
    seeds = range(100 * part, 100 * part + 100)
    for problem in (*map(small_problem, seeds), *straight(seeds)):
        try:
            answer = Planner(problem).plan()
        except (Infeasible, InvalidProblem):
            continue
        assert check(problem, answer) == []
        found += 1
    assert found > 60
