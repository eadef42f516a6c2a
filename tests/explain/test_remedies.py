"""Remedies: the smallest single change of every kind, and what is said where none helps."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem, Remedy
from kvplan.solver import plan

GIB, MIB = 2**30, 2**20
ONE: dict[str, Any] = {
    "tokens_per_block": 1,
    "pools": [{"name": "kv", "bytes": 1}],
    "caches": [{"name": "full", "kind": "full"}],
}


def refused(**parts: Any) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        plan(Problem.model_validate({**ONE, **parts}))
    return caught.value


def remedies(**parts: Any) -> dict[str, int | str]:
    return {remedy.change: remedy.to for remedy in refused(**parts).remedies}


def request(capacity: int, **fields: Any) -> dict[str, Any]:
    return {"batches": [{"name": "b", "requests": [{"name": "q", "capacity": capacity, **fields}]}]}


def rank(quota: int, name: str = "r0", **fields: Any) -> dict[str, Any]:
    return {"name": name, "quota": quota, **fields}


def test_bytes_and_capacity_and_their_order() -> None:
    found = refused(ranks=[rank(100)], **request(101))
    assert [(entry.change, entry.from_, entry.to) for entry in found.remedies] == [
        ("batches.b.requests.q.capacity", 101, 100),
        ("ranks.r0.quota", 100, 101),
        ("batches.b.requests.q.count", 1, 0),
    ], "1/101 is less than 1/100, and that less than the whole"
    assert found.remedies[1].as_dict() == {
        "change": "ranks.r0.quota",
        "from": 100,
        "to": 101,
        "text": "rank r0: 1 B more, a quota of 101 B",
    }


def test_a_lower_count() -> None:
    assert remedies(ranks=[rank(100)], **request(30, count=7))["batches.b.requests.q.count"] == 3


def test_floors_of_fitted_requests() -> None:
    found = remedies(ranks=[rank(100)], **request(900, fit="capacity", min_capacity=150))
    assert found["batches.b.requests.q.min_capacity"] == 100
    found = remedies(ranks=[rank(100)], **request(30, fit="count", count=9, min_count=4))
    assert found["batches.b.requests.q.min_count"] == 3


def test_a_history_that_is_given_lets_the_request_shrink_with_it() -> None:
    found = remedies(ranks=[rank(100)], **request(150, history=140))
    assert found["batches.b.requests.q.fit"] == "capacity"
    assert "batches.b.requests.q.capacity" not in found, "140 tokens of history are too many"
    texts = [r.text for r in refused(ranks=[rank(100)], **request(150, history=140)).remedies]
    assert "request q: let it shrink: 100 tokens fit" in texts


def test_the_largest_capacity_need_not_be_monotone() -> None:
    """A live window of 2 over blocks of 4 holds 1 block at 12 tokens, and 2 at 5, 9 and 13."""
    cache = {"name": "swa", "kind": "window", "keep": "live", "window": 2, "tokens_per_block": 4}
    parts = {"caches": [cache], "ranks": [rank(2)]}
    fitting = [c for c in range(1, 13) if _fits({**ONE, **parts, **request(c, count=2)})]
    assert (fitting[-1], 5 in fitting, 9 in fitting) == (12, False, False)
    assert remedies(**parts, **request(13, count=2))["batches.b.requests.q.capacity"] == 12


def _fits(data: dict[str, Any]) -> bool:
    try:
        plan(Problem.model_validate(data))
    except Infeasible:
        return False
    return True


def test_chunk_and_expert_floors() -> None:
    staging = [{"name": "s", "per_token": 10}]
    for prefill, field in (
        ({"requested": 64, "min": 16}, "prefill.min"),
        ({"requested": 64, "chunks": [16, 64]}, "prefill.chunks[0]"),
        ({"requested": 16}, "prefill.min"),
    ):
        found = remedies(ranks=[rank(100)], prefill={**prefill, "staging": staging})
        assert found[field] == 10
    found = remedies(ranks=[rank(100)], experts={"slot_bytes": 30, "min_slots": 5})
    assert found["experts.min_slots"] == 3


def test_resume_utilization_in_the_steps_of_a_flag() -> None:
    found = remedies(ranks=[rank(100)], resume_utilization="0.901", **request(93))
    assert found["resume_utilization"] == "0.93"


def test_pool_floors_and_limits() -> None:
    pool = {"name": "kv", "bytes": 1, "min_blocks": 200}
    assert remedies(ranks=[rank(100)], pools=[pool])["pools.kv.min_blocks"] == 100
    pool = {"name": "kv", "bytes": 1, "max_blocks": 20, "multiple_of": 8}
    assert remedies(ranks=[rank(100)], pools=[pool], **request(30))["pools.kv.max_blocks"] == 32


def test_a_smaller_consumer_by_rank() -> None:
    ranks = [rank(100), rank(100, "r1")]
    consumer = {"name": "w", "bytes": {"r0": 50, "r1": 80}}
    found = refused(ranks=ranks, consumers=[consumer], **request(40))
    assert {r.change: r.to for r in found.remedies}["consumers.w.bytes.r1"] == 60
    assert "consumers.w.bytes.r0" in {entry.change for entry in found.ruled_out}


def test_bounds_of_constraints_in_their_own_steps() -> None:
    constraint = {"terms": {"blocks:kv": "1/3"}, "max": 2}
    found = remedies(ranks=[rank(100)], constraints=[constraint], **request(10))
    assert found["constraints[0].max"] == "10/3"
    constraint = {"terms": {"blocks:kv": 2}, "min": 300}
    assert remedies(ranks=[rank(100)], constraints=[constraint])["constraints[0].min"] == "200"


def test_ranks_that_are_short_together_need_one_quota_for_all() -> None:
    found = refused(ranks=[rank(90), rank(95, "r1"), rank(500, "r2")], **request(100))
    changes = {entry.change: entry.to for entry in found.remedies}
    assert changes["ranks.*.quota"] == 100
    assert "ranks.r0.quota" not in changes
    reasons = {entry.change: entry.reason for entry in found.ruled_out}
    assert "rank r1 is short by 5 B" in reasons["ranks.r0.quota"]


def test_both_sides_of_a_granule_step_are_tried() -> None:
    """At 2 GiB pages of 4 MiB hold 681 blocks of 3 MiB in 2047 MiB; a byte less, of 2 MiB, 682."""
    parts = {
        "pools": [{"name": "kv", "bytes": 3 * MIB, "granule": "auto"}],
        "consumers": [{"name": "w", "bytes": MIB}],
    }
    found = refused(ranks=[rank(2 * GIB)], **parts, **request(682)).remedies
    quotas = [entry.to for entry in found if entry.change == "ranks.r0.quota"]
    assert quotas == [2 * GIB - 1, 2 * GIB + MIB]


def test_both_sides_of_a_granule_step_are_tried_of_what_is_free() -> None:
    """Half of free, half of that for graphs: the quota grows by a byte where free grows by 4."""
    reading = {"free": 4 * 1900 * MIB, "utilization": "1/2", "graphs": {"fraction": "1/2"}}
    parts = {
        "pools": [{"name": "kv", "bytes": 3 * MIB, "granule": "auto"}],
        "consumers": [{"name": "w", "bytes": MIB}],
    }
    found = refused(ranks=[{"name": "r0", "memory": reading}], **parts, **request(682)).remedies
    free = [entry.to for entry in found if entry.change == "ranks.r0.memory.free"]
    assert free == [4 * 2047 * MIB]


MEMORY = {"total": 1000, "utilization": "1/2", "peak_torch": 100}


def memory(**fields: Any) -> dict[str, Any]:
    return {"name": "r0", "memory": {**MEMORY, **fields}}


def test_utilization_rounds_up_to_what_a_flag_can_say() -> None:
    found = refused(ranks=[memory()], **request(431))
    by_change = {entry.change: entry for entry in found.remedies}
    entry = by_change["ranks.r0.memory.utilization"]
    assert (entry.from_, entry.to) == ("1/2", "0.54")
    assert entry.text == "rank r0: utilization 0.54, 40 B more"
    assert by_change["ranks.r0"].to == '{name: "r0", stage: 0, quota: 431}'


def test_utilization_is_ruled_out_where_free_memory_binds() -> None:
    found = refused(ranks=[memory(free=300)], **request(431))
    changes = {entry.change: entry.to for entry in found.remedies}
    assert "ranks.r0.memory.utilization" not in changes
    reasons = {entry.change: entry.reason for entry in found.ruled_out}
    assert reasons["ranks.r0.memory.utilization"].endswith(
        "rank r0 is bound by free memory, raising it does nothing"
    )
    found = refused(ranks=[memory(free=410)], **request(431))
    reasons = {entry.change: entry.reason for entry in found.ruled_out}
    assert reasons["ranks.r0.memory.utilization"].endswith("raising it gives 10 B at most")


def test_more_free_memory_and_smaller_headrooms() -> None:
    found = remedies(ranks=[memory(free=500, prefill_headroom=200)], **request(400))
    assert found["ranks.r0.memory.prefill_headroom"] == 100
    assert found["ranks.r0.memory.free"] == 600
    found = remedies(ranks=[memory(free=500, prefill_headroom={"fraction": "0.2"})], **request(400))
    assert found["ranks.r0.memory.prefill_headroom.fraction"] == "0.10"
    found = remedies(ranks=[memory(safety=100)], **request(350))
    assert found["ranks.r0.memory.safety"] == 50


def test_a_flag_of_all_ranks_is_turned_for_all() -> None:
    ranks = [memory(), {**memory(), "name": "r1"}]
    found = remedies(ranks=ranks, **request(431))
    assert found["ranks.*.memory.utilization"] == "0.54"
    assert "ranks.r0.memory.utilization" not in found


def test_variants_are_tried_as_a_whole() -> None:
    variants = [
        {"name": "half", "set": ["pools.kv.bytes=1", "ranks.r0.quota=120"]},
        {"name": "bad", "set": ["pools.kv.bytes=-1"]},
        {"name": "idle", "set": ["name=other"]},
    ]
    found = refused(
        ranks=[rank(100)],
        pools=[{"name": "kv", "bytes": 2}],
        variants=variants,
        **request(120),
    )
    last = found.remedies[-1]
    assert last == Remedy(
        "variants.half",
        None,
        "half",
        "variant half: --set pools.kv.bytes=1 --set ranks.r0.quota=120",
    )
    reasons = {entry.change: entry.reason for entry in found.ruled_out}
    assert reasons["variants.bad"].startswith("invalid: pools[0].bytes: expected")
    assert "is short by" in reasons["variants.idle"]


@pytest.mark.parametrize("name", ["a'b", "two words", "$HOME", 'say "x"', "a;b"])
def test_the_flags_of_a_variant_can_be_pasted_in_a_shell(name: str) -> None:
    entry = f"consumers.{name}.bytes=5"
    found = refused(
        ranks=[rank(10)],
        consumers=[{"name": name, "bytes": 20}],
        variants=[{"name": "v", "set": [entry, "name=other"]}],
    )
    text = found.remedies[-1].text.removeprefix("variant v: ")
    assert shlex.split(text) == ["--set", entry, "--set", "name=other"]


def test_options_are_the_solvers_to_choose() -> None:
    options = [{"name": "x", "bytes": 101}, {"name": "y", "bytes": 102}]
    found = refused(ranks=[rank(100)], choices=[{"name": "c", "options": options}])
    reasons = {entry.change: entry.reason for entry in found.ruled_out}
    assert reasons["choices.c"] == "all 2 options were tried"


HUGE = 2**59


@pytest.mark.parametrize(
    ("parts", "change"),
    [
        ({"ranks": [rank(HUGE)]}, "ranks.r0.quota"),
        ({"ranks": [rank(HUGE), rank(HUGE, "r1")]}, "ranks.*.quota"),
        ({"ranks": [{"name": "r0", "memory": {"free": HUGE}}]}, "ranks.r0.memory.free"),
        (
            {"ranks": [rank(2**62)], "pools": [{"name": "kv", "bytes": 1, "max_blocks": HUGE}]},
            "pools.kv.max_blocks",
        ),
    ],
)
def test_figures_beyond_plenty_are_raised_as_well(parts: dict[str, Any], change: str) -> None:
    assert remedies(**parts, **request(HUGE + 1))[change] == HUGE + 1


def test_a_declared_quota_beyond_plenty() -> None:
    found = remedies(ranks=[{"name": "r0", "memory": {"free": HUGE}}], **request(HUGE + 1))
    assert found["ranks.r0"] == f'{{name: "r0", stage: 0, quota: {HUGE + 1}}}'


def test_a_small_quota_beneath_a_huge_need() -> None:
    assert remedies(ranks=[rank(5)], **request(HUGE))["ranks.r0.quota"] == HUGE
