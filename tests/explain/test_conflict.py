"""Conflicts: every kind of demand is named where it takes part, and only there."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from kvplan.solver.explain.conflict.items import MOST_REQUESTS
from kvplan.solver.explain.conflict.minimal import minimal_conflict
from support import laws
from support.cases import load
from support.infeasible import infeasible_problem

KV: dict[str, Any] = {
    "ranks": [{"name": "r0", "quota": 100}],
    "tokens_per_block": 1,
    "pools": [{"name": "kv", "bytes": 1}],
    "caches": [{"name": "full", "kind": "full"}],
}


def batch(*capacities: int, **fields: Any) -> dict[str, Any]:
    requests = [{"name": f"q{i}", "capacity": c, **fields} for i, c in enumerate(capacities)]
    return {"batches": [{"name": "b", "requests": requests}]}


def refused(**parts: Any) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        plan(Problem.model_validate({**KV, **parts}))
    return caught.value


def texts(**parts: Any) -> list[str]:
    return [claim.text for claim in refused(**parts).conflict]


def test_one_request_too_large_is_its_own_conflict_with_the_quota() -> None:
    assert texts(**batch(10, 101)) == ["request q1: 101 tokens", "quota of rank r0: 100 B"]


def test_two_requests_that_fit_alone_are_both_named() -> None:
    assert texts(**batch(60, 60)) == [
        "request q0: 60 tokens",
        "request q1: 60 tokens",
        "quota of rank r0: 100 B",
    ]


def test_a_fitted_request_is_named_at_its_floor() -> None:
    found = texts(**batch(200, fit="capacity", min_capacity=150))
    assert found[0] == "request q0: at least 150 tokens"
    found = texts(**batch(30, fit="count", count=9, min_count=4))
    assert found[0] == "request q0: at least 4, 30 tokens each"


POOL = {"name": "kv", "bytes": 1}
STAGED = {"requested": 9, "min": 2}
OPTIONS = [{"name": "x", "bytes": 101}, {"name": "y", "bytes": 102}]


@pytest.mark.parametrize(
    ("parts", "kinds"),
    [
        ({"consumers": [{"name": "w", "bytes": 101}]}, "consumer, quota"),
        (
            {"consumers": [{"name": "w", "bytes": 90}], **batch(20)},
            "request, consumer, quota",
        ),
        ({"pools": [{**POOL, "min_blocks": 101}]}, "pool minimum, quota"),
        ({"pools": [{**POOL, "max_blocks": 9}], **batch(10)}, "pool limit, request"),
        ({"pools": [{**POOL, "max_bytes": 9}], **batch(10)}, "allocation limit, request"),
        ({"pools": [{**POOL, "reserved_blocks": 101}]}, "quota"),
        ({"experts": {"slot_bytes": 60, "min_slots": 2}}, "expert floor, quota"),
        (
            {"prefill": {**STAGED, "staging": [{"name": "s", "per_token": 60}]}},
            "staging, chunk floor, quota",
        ),
        ({"prefill": {**STAGED, "staging": [{"name": "s", "base": 101}]}}, "staging, quota"),
        ({"choices": [{"name": "c", "options": OPTIONS}]}, "choice, quota"),
        (
            {"constraints": [{"terms": {"blocks:kv": 1}, "max": 9}], **batch(10)},
            "constraint, request",
        ),
        ({"constraints": [{"terms": {"blocks:kv": 1}, "min": 101}]}, "constraint, quota"),
    ],
)
def test_every_kind_takes_part_where_it_must(parts: dict[str, Any], kinds: str) -> None:
    assert ", ".join(claim.kind for claim in refused(**parts).conflict) == kinds


def test_of_several_short_ranks_the_shortest_stays() -> None:
    ranks = [{"name": f"r{i}", "quota": quota} for i, quota in enumerate((90, 70, 80, 200))]
    found = refused(ranks=ranks, **batch(100))
    assert [claim.path for claim in found.conflict] == ["batches.b.requests.q0", "ranks.r1.quota"]


def test_alternatives_in_time_do_not_add_up() -> None:
    batches = [*batch(60)["batches"], {**batch(101)["batches"][0], "name": "other"}]
    assert texts(batches=batches)[0] == "request q0 of batch other: 101 tokens"


def test_a_large_batch_is_one_demand() -> None:
    parts = batch(*[3] * (MOST_REQUESTS + 1))
    found = refused(**parts).conflict
    assert [claim.kind for claim in found] == ["batch", "quota"]
    assert found[0].text == "batch b: 49 requests at their floors"


def test_names_that_no_path_can_carry_are_written_by_position() -> None:
    ranks = [{"name": "a.b", "quota": 100}, {"name": "1", "quota": 200}]
    found = refused(ranks=ranks, **batch(150))
    assert found.conflict[-1].path == "ranks[0].quota"
    assert found.remedies[0].change in ("ranks[0].quota", "batches.b.requests.q0.capacity")


def test_a_resize_below_the_floors_names_the_floor_of_the_plan() -> None:
    answer = plan(load("trtllm_fit_to_quota"))
    with pytest.raises(Infeasible) as caught:
        answer.resize(900_000_000)
    found = {claim.kind: claim.text for claim in caught.value.conflict}
    full = next(text for kind, text in found.items() if kind == "pool minimum")
    assert "the floor of the plan that is resized" in full
    assert f"{answer.floors['full']:_} usable blocks" in full
    assert {entry.rank for entry in caught.value.shortfall} == {"gpu"}


def test_the_conflict_is_found_among_sixty_four_ranks() -> None:
    ranks = [{"name": f"r{i}", "quota": 99 if i == 41 else 1000 + i} for i in range(64)]
    problem = Problem.model_validate({**KV, "ranks": ranks, **batch(100)})
    assert [item.at for item in minimal_conflict(problem)] == [(0, 0), (41,)]


def test_a_refusal_is_not_explained_before_someone_asks() -> None:
    code = (
        "import sys\n"
        "from kvplan.models import Infeasible, Problem\n"
        "from kvplan.solver import plan\n"
        "p = Problem.parse('{ranks: [{name: r, quota: 1}], consumers: [{name: w, bytes: 2}]}')\n"
        "try:\n    plan(p)\n"
        "except Infeasible as error:\n"
        "    print('kvplan.solver.explain' in sys.modules, end=' ')\n"
        "    print(len(error.remedies), 'kvplan.solver.explain' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "2", "True"]


def test_a_refusal_travels_to_another_process_with_its_advice() -> None:
    error = refused(**batch(101))
    copy = pickle.loads(pickle.dumps(error))
    assert copy.advice == error.advice
    assert (str(copy), copy.shortfall, copy.ranks) == (str(error), error.shortfall, error.ranks)
    assert copy.conflict


@pytest.mark.parametrize("quota", [100, 2**53, 2**62])
def test_a_quota_of_any_size_may_be_dropped(quota: int) -> None:
    """Without its quota a rank holds whatever is asked, beyond 64 bits too."""
    found = refused(ranks=[{"name": "r0", "quota": quota}], **batch(2**62, count=2**20))
    assert [claim.kind for claim in found.conflict] == ["request", "quota"]


def test_a_floor_that_no_one_asked_for_conflicts_with_the_quota_alone() -> None:
    """The blocks that a live window keeps are no demand; they may take petabytes."""
    wide = {"name": "swa", "kind": "window", "keep": "live", "window": 2**40}
    found = refused(pools=[{"name": "kv", "bytes": 2**20}], caches=[wide])
    assert [claim.kind for claim in found.conflict] == ["quota"]


@pytest.mark.parametrize("seed", [*range(8), 47, 244, 344])
def test_a_conflict_is_the_same_at_any_size(seed: int) -> None:
    """All bytes times k: near 2^59, too, where a freed quota may leave 64 bits."""
    data, _ = infeasible_problem(seed, constraints=True, granules=False, memory=False)
    data = laws.without_auto(data)
    wanted = minimal_conflict(Problem.model_validate(data))
    quota = max(rank["quota"] for rank in data["ranks"])
    assert wanted
    for exponent in (53, 57, 59, 61):
        scaled = laws.scaled(data, max(1, 2**exponent // max(1, quota)))
        assert minimal_conflict(Problem.model_validate(scaled)) == wanted, exponent
