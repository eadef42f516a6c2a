"""Given requests: many are summed as arrays, exactly, or one by one where int64 is too narrow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels import given as given_module
from kvplan.kernels.demand import Demand
from kvplan.kernels.given import VECTORISE_FROM, GivenBlocks
from kvplan.kernels.instance import FixedRequests, GivenRequests
from kvplan.kernels.need import blocks, need_term, placeholder_blocks, request_blocks
from kvplan.models import Problem
from support.instance import instance_of, raw_of, rule, windows
from support.instances import random_problem
from support.micro import cache, micro


def batch(*requests: dict[str, Any], prefix: int = 0) -> dict[str, Any]:
    return {"batches": [{"name": "b", "shared_prefix": prefix, "requests": [*requests]}]}


def sums(problem: Problem) -> list[list[int]]:
    """Blocks by cache of each batch's given requests, for every chunk."""
    demand = Demand(instance_of(problem))
    batches, chunks = range(len(demand.instance.batches)), range(len(demand.instance.chunks))
    return [demand.given_blocks(b, k) for b in batches for k in chunks]


def one_by_one(problem: Problem) -> list[list[int]]:
    """The same, request by request and rule by rule, in Python integers."""
    instance = instance_of(problem)
    demand, found = Demand(instance), []
    for each in instance.batches:
        for chunk in range(len(instance.chunks)):
            by_cache = []
            for of in instance.caches:
                prefix, flight = each.prefix_tokens // of.block_tokens, demand.flight(of, chunk)
                by_cache.append(
                    sum(
                        n * request_blocks(of, c, h, flight, prefix)
                        if c
                        else n * placeholder_blocks(of)
                        for c, h, n in each.fixed
                    )
                )
            found.append(by_cache)
    return found


def crowd(number: int = VECTORISE_FROM, *, step: int = 1, count: int = 1) -> list[dict[str, Any]]:
    """Distinct requests, the longer ones with more in flight."""
    return [
        {"capacity": step * (3 * k + 1), "history": step * (2 * k), "count": count + k % 3}
        for k in range(number)
    ]


@pytest.mark.parametrize("number", [1, 3, 4, VECTORISE_FROM - 1, VECTORISE_FROM, 90])
@given(st.integers(0, 2**32 - 1), st.integers(0, 60))
def test_requests_add_up_to_what_they_need_one_by_one(number: int, seed: int, prefix: int) -> None:
    data = random_problem(seed, fit=False, prefix=seed % 2 == 0, flights=True)
    shared = prefix if seed % 2 == 0 else 0
    requests = [*crowd(number), {"capacity": 0, "count": 2}, {"capacity": 5, "count": 0}]
    data["batches"] = [{"name": "crowd", "shared_prefix": shared, "requests": requests}]
    data |= {"goals": [], "constraints": [], "fill": "none"}
    problem = Problem.model_validate(data)
    assert sums(problem) == one_by_one(problem)


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(1, 3)), max_size=9))
def test_rows_and_columns_of_several_caches(rows: list[tuple[int, int, int]]) -> None:
    rules = [
        rule("full", 4, groups=2, extra_blocks=1),
        rule("state", groups=3, state_blocks=2),
        *(rule("live", t, reach=w, sink_blocks=s) for t in (3, 4) for w in (1, 20) for s in (0, 2)),
    ]
    requests = [FixedRequests(max(c, h), min(c, h), n) for c, h, n in rows]
    terms = [need_term(each, 1) for each in rules]
    expected = [
        sum(
            n * (request_blocks(each, c, h, 1, 0) if c else placeholder_blocks(each))
            for c, h, n in requests
        )
        for each in rules
    ]
    columns = GivenRequests(*map(list, zip(*requests, strict=True))) if requests else ()
    assert GivenBlocks(rules, requests).by_cache(terms) == expected
    assert GivenBlocks(rules, columns).by_cache(terms) == expected


# --- how they are summed -------------------------------------------------------------------------


class Passes:
    """Counts the passes of requests through a rule, as arrays and one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrays = self.integers = 0
        monkeypatch.setattr(given_module, "blocks", self)

    def __call__(self, term: Any, capacity: Any, history: Any) -> Any:
        if isinstance(capacity, int):
            self.integers += 1
        else:
            self.arrays += 1
        return blocks(term, capacity, history)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "full"},
        {"kind": "window", "keep": "live", "window": 9},
        {"kind": "window", "keep": "peak", "window": 9},
        {"kind": "window", "keep": "in_flight", "window": 9},
    ],
)
def test_many_requests_are_evaluated_as_arrays(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request at a time is looked at below the threshold, and none from it on."""
    passes = Passes(monkeypatch)
    raw_of(micro(**cache(**fields), **batch(*crowd(VECTORISE_FROM))))
    assert (passes.arrays, passes.integers) == (1, 0)
    raw_of(micro(**cache(**fields), **batch(*crowd(VECTORISE_FROM - 1))))
    assert (passes.arrays, passes.integers) == (1, VECTORISE_FROM - 1)


def test_caches_that_differ_in_groups_and_extra_blocks_share_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So does a window that no history has outgrown; the outgrown one takes its own."""
    full = [{"name": f"f{k}", "kind": "full", "groups": k, "extra_blocks": k} for k in (1, 2, 5)]
    wide, narrow = windows(4, 10**6), windows(4, 30)
    problem = micro(caches=[*full, *wide, *narrow], **batch(*crowd()))
    instance = instance_of(problem)
    passes = Passes(monkeypatch)
    found = Demand(instance).given_blocks(0, 0)
    assert (passes.arrays, passes.integers) == (2, 0)
    assert [found] == one_by_one(problem)


# --- figures beyond int64 ------------------------------------------------------------------------

LARGE: dict[str, dict[str, Any]] = {
    "capacities of 2^30 and more": {"requests": crowd(step=2**26)},
    "capacities just below 2^30": {"requests": crowd(step=2**23)},
    "counts of 2^30 and more": {"requests": crowd(count=2**40)},
    "sums beyond 2^63": {"requests": crowd(step=2**23, count=2**29 - 3)},
    "groups of 2^40": {"requests": crowd(), "groups": 2**40},
    "groups that take a sum beyond 2^63": {"requests": crowd(step=2**22), "groups": 2**29},
    "extra blocks of 2^62": {"requests": crowd(), "extra_blocks": 2**62},
}


@pytest.mark.parametrize("name", LARGE)
def test_large_figures_stay_exact(name: str) -> None:
    fields = dict(LARGE[name])
    requests = fields.pop("requests")
    for kind in ({"kind": "full"}, windows(1, 77)[0]):
        problem = micro(
            tokens_per_block=1, caches=[{**kind, "name": "c", **fields}], **batch(*requests)
        )
        assert sums(problem) == one_by_one(problem)
    total = sum((r["capacity"] + fields.get("extra_blocks", 0)) * r["count"] for r in requests)
    full = micro(
        tokens_per_block=1, caches=[{"name": "c", "kind": "full", **fields}], **batch(*requests)
    )
    assert raw_of(full) == [fields.get("groups", 1) * total]


@pytest.mark.parametrize(
    "fields",
    [
        {"window": 2**62, "keep": "live"},
        {"window": 2**62, "keep": "peak"},
        {"window": 2**62, "keep": "in_flight"},
        {"window": 64, "keep": "in_flight", "in_flight": 2**62},
        {"window": 64, "keep": "live", "scratch": {"fraction": f"1/{2**61}"}},
        {"window": 64, "keep": "live", "scratch": {"fraction": 1, "max_rewind": 2**62}},
        {"sink": 2**63 - 1, "keep": "live", "window": 2**29, "tokens_per_block": 1},
        {"sink": 2**63 - 1, "keep": "peak", "window": 2**29, "tokens_per_block": 1},
        {"kind": "full", "tokens_per_block": 2**62, "shards": 4},
    ],
)
def test_many_requests_of_a_cache_with_large_figures(fields: dict[str, Any]) -> None:
    problem = micro(**cache(**{"kind": "window", **fields}), **batch(*crowd()))
    assert sums(problem) == one_by_one(problem)


def test_many_requests_behind_a_prefix_beyond_int64() -> None:
    problem = micro(caches=windows(1, 2**29), **batch(*crowd(), prefix=2**63 - 1))
    assert sums(problem) == one_by_one(problem)
