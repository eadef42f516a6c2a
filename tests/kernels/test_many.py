"""Many requests: evaluated as arrays, exactly, and one by one where int64 would not hold them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels import demand as demand_module
from kvplan.kernels import many as many_module
from kvplan.kernels.demand import VECTORISE_FROM, VECTORISE_SIMPLE_FROM, Demand
from kvplan.kernels.many import few_simple_blocks, simple_blocks_of
from kvplan.kernels.need import request_blocks
from kvplan.models import Problem
from support.instance import raw_of, rule, terms_of, windows
from support.instances import random_problem
from support.micro import cache, micro


def batch(*requests: dict[str, Any], prefix: int = 0) -> dict[str, Any]:
    return {"batches": [{"name": "b", "shared_prefix": prefix, "requests": [*requests]}]}


def at_once_and_one_by_one(problem: Problem, patch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Raw needs of every batch by arrays, and request by request."""
    instance = terms_of(problem)
    batches, chunks = range(len(instance.batches)), range(len(instance.chunks))
    with patch.context() as context:
        context.setattr(demand_module, "VECTORISE_SIMPLE_FROM", 0)
        at_once = [[Demand(instance).fixed(b, k) for k in chunks] for b in batches]
        context.setattr(demand_module, "VECTORISE_SIMPLE_FROM", 10**9)
        context.setattr(demand_module, "VECTORISE_FROM", 10**9)
        one_by_one = [[Demand(instance).fixed(b, k) for k in chunks] for b in batches]
    return at_once, one_by_one


def crowd(number: int = VECTORISE_FROM, *, step: int = 1, count: int = 1) -> list[dict[str, Any]]:
    """Distinct requests, the longer ones with more in flight."""
    return [
        {"capacity": step * (3 * k + 1), "history": step * (2 * k), "count": count + k % 3}
        for k in range(number)
    ]


@given(st.integers(0, 2**32 - 1), st.integers(0, 60))
def test_many_requests_need_what_they_need_one_by_one(seed: int, prefix: int) -> None:
    data = random_problem(seed, fit=False, prefix=seed % 2 == 0, flights=True)
    shared = prefix if seed % 2 == 0 else 0
    requests = [*crowd(), {"capacity": 0, "count": 2}, {"capacity": 5, "count": 0}]
    data["batches"] = [{"name": "crowd", "shared_prefix": shared, "requests": requests}]
    data |= {"goals": [], "constraints": [], "fill": "none"}
    with pytest.MonkeyPatch.context() as patch:
        at_once, one_by_one = at_once_and_one_by_one(Problem.model_validate(data), patch)
    assert at_once == one_by_one


@pytest.mark.parametrize("retention", ["peak", "in_flight"])
def test_many_requests_are_evaluated_as_arrays(
    retention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request at a time is looked at below the threshold, and none from it on."""
    looked = []

    def spy(rule: Any, capacity: Any, *rest: Any) -> Any:
        looked.append(isinstance(capacity, int))
        return request_blocks(rule, capacity, *rest)

    monkeypatch.setattr(demand_module, "request_blocks", spy)
    monkeypatch.setattr(many_module, "request_blocks", spy)
    window = cache(kind="window", keep=retention, window=9)
    raw_of(micro(**window, **batch(*crowd(VECTORISE_FROM))))
    assert not any(looked)
    raw_of(micro(**window, **batch(*crowd(VECTORISE_FROM - 1))))
    assert looked.count(True) == VECTORISE_FROM - 1


@pytest.mark.parametrize("fields", [{"kind": "full"}, {"kind": "window", "keep": "live"}])
def test_many_requests_of_simple_caches_are_evaluated_as_arrays(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def spy(rules: Any, columns: Any) -> Any:
        taken.append(len(columns[0]))
        return simple_blocks_of(rules, columns)

    monkeypatch.setattr(demand_module, "simple_blocks_of", spy)
    fields = fields if fields["kind"] == "full" else {**fields, "window": 9}
    for number in (VECTORISE_SIMPLE_FROM - 1, VECTORISE_SIMPLE_FROM):
        raw_of(micro(**cache(**fields), **batch(*crowd(number))))
    assert taken == [VECTORISE_SIMPLE_FROM]


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(1, 3)), max_size=9))
def test_a_few_requests_of_simple_caches(rows: list[tuple[int, int, int]]) -> None:
    rules = [
        rule("full", 4, groups=2, extra_blocks=1),
        *(rule("live", t, reach=w, sink_blocks=s) for t in (3, 4) for w in (1, 20) for s in (0, 2)),
    ]
    requests = [(max(c, h), min(c, h), n) for c, h, n in rows]
    expected = [
        sum(n * request_blocks(each, c, h, 1, 0) for c, h, n in requests if c) for each in rules
    ]
    assert few_simple_blocks(rules, requests) == expected


LARGE: dict[str, dict[str, Any]] = {
    "capacities of 2^30 and more": {"requests": crowd(step=2**26)},
    "counts of 2^30 and more": {"requests": crowd(count=2**40)},
    "sums beyond 2^63": {"requests": crowd(step=2**23, count=2**29 - 3)},
    "groups of 2^40": {"requests": crowd(), "groups": 2**40},
    "extra blocks of 2^62": {"requests": crowd(), "extra_blocks": 2**62},
}


@pytest.mark.parametrize("name", LARGE)
def test_many_large_figures_fall_back_and_stay_exact(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = dict(LARGE[name])
    requests = fields.pop("requests")
    for kind in ({"kind": "full"}, windows(1, 77)[0]):
        problem = micro(
            tokens_per_block=1, caches=[{**kind, "name": "c", **fields}], **batch(*requests)
        )
        at_once, one_by_one = at_once_and_one_by_one(problem, monkeypatch)
        assert at_once == one_by_one
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
    ],
)
def test_many_requests_of_a_cache_with_large_figures(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = micro(**cache(kind="window", **fields), **batch(*crowd()))
    at_once, one_by_one = at_once_and_one_by_one(problem, monkeypatch)
    assert at_once == one_by_one


@pytest.mark.parametrize(
    "fields",
    [
        {"sink": 2**63 - 1, "keep": "live", "window": 2**29, "tokens_per_block": 1},
        {"sink": 2**63 - 1, "keep": "peak", "window": 2**29, "tokens_per_block": 1},
        {"kind": "full", "tokens_per_block": 2**62, "shards": 4},
    ],
)
def test_many_requests_of_a_cache_with_sinks_and_blocks_beyond_int64(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = micro(**cache(**{"kind": "window", **fields}), **batch(*crowd()))
    at_once, one_by_one = at_once_and_one_by_one(problem, monkeypatch)
    assert at_once == one_by_one


def test_many_requests_behind_a_prefix_beyond_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = micro(caches=windows(1, 2**29), **batch(*crowd(), prefix=2**63 - 1))
    at_once, one_by_one = at_once_and_one_by_one(problem, monkeypatch)
    assert at_once == one_by_one
