"""Mistakes in caches, and fields on a cache of the wrong kind: one line each."""

from __future__ import annotations

from typing import Any

import pytest

from support.bad import POOL, Table, cache, each_of, refused, small

CACHES: Table = {
    "unknown kind": (
        cache(kind="sliding"),
        "caches[0].kind: expected 'full', 'window', 'chunked' or 'state', got 'sliding'",
    ),
    "unknown pool": (cache(kind="full", pool="pp"), "caches[0].pool: expected 'p', got 'pp'"),
    "no pool at all": (
        small(caches=[{"name": "c", "kind": "full"}]),
        "caches[0].pool: expected the name of a pool (it may be left out when there is one), "
        "got none, with 0 pools",
    ),
    "pool left out of two": (
        small(pools=[POOL, POOL | {"name": "x"}], caches=[{"name": "c", "kind": "full"}]),
        "caches[0].pool: expected the name of a pool (it may be left out when there is one), "
        "got none, with 2 pools",
    ),
    "window of none": (
        cache(kind="window"),
        "caches[0].window: expected window (tokens) on a window cache, got none",
    ),
    "window of 0": (
        cache(kind="window", window=0),
        "caches[0].window: expected a whole number of at least 1, got 0",
    ),
    "chunk of none": (
        cache(kind="chunked"),
        "caches[0].chunk: expected chunk (tokens) on a chunked cache, got none",
    ),
    "flight word": (
        cache(kind="chunked", chunk=8, in_flight="decode"),
        "caches[0].in_flight: expected \"prefill\", or tokens of at least 1, got 'decode'",
    ),
    "flight 0": (
        cache(kind="chunked", chunk=8, in_flight=0),
        'caches[0].in_flight: expected "prefill", or tokens of at least 1, got 0',
    ),
    "flight without prefill": (
        cache(kind="chunked", chunk=8, in_flight="prefill"),
        'caches[0].in_flight: expected a prefill section beside "prefill", got none',
    ),
    "scratch fraction": (
        cache(kind="window", window=8, keep="live", scratch={"fraction": "5/4"}),
        "caches[0].scratch.fraction: expected a share from 0 to 1, got '5/4'",
    ),
    "prefix beside a peak window": (
        cache(kind="window", window=8)
        | {"batches": [{"name": "b", "shared_prefix": 9, "requests": []}]},
        "batches[0].shared_prefix: expected caches of kind full, window live or state beside a "
        "prefix, got 'c' (peak)",
    ),
}


WRONG_KIND = [
    ("full", {}, "sink", 4),
    ("full", {}, "keep", "live"),
    ("full", {}, "window", 8),
    ("full", {}, "in_flight", 1),
    ("full", {}, "in_flight_per", "batch"),
    ("full", {}, "scratch", {"fraction": 0.5}),
    ("full", {}, "chunk", 8),
    ("full", {}, "blocks", 1),
    ("window", {"window": 8}, "shards", 2),
    ("window", {"window": 8}, "chunk", 8),
    ("window", {"window": 8}, "blocks", 1),
    ("chunked", {"chunk": 8}, "sink", 0),
    ("chunked", {"chunk": 8}, "shards", 1),
    ("chunked", {"chunk": 8}, "window", 8),
    ("chunked", {"chunk": 8}, "scratch", {"fraction": 0.5}),
    ("state", {}, "in_flight", 2),
    ("state", {}, "shards", 2),
    ("state", {}, "sink", 0),
    ("state", {}, "chunk", 8),
]


WRONG_KEEP = [
    ("peak", "scratch", {"fraction": 0.5}),
    ("peak", "in_flight_per", "batch"),
    ("live", "in_flight", 4),
    ("live", "in_flight_per", "batch"),
    ("in_flight", "sink", 4),
    ("in_flight", "scratch", {"fraction": 0.5}),
]


@each_of(CACHES)
def test_a_mistake_in_the_caches_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]


@pytest.mark.parametrize(("kind", "needed", "field", "value"), WRONG_KIND)
def test_a_field_of_another_kind_is_refused_by_name(
    kind: str, needed: dict[str, Any], field: str, value: Any
) -> None:
    (line,) = refused(cache(kind=kind, **needed, **{field: value}))
    assert line.startswith(f"caches[0].{field}: expected no {field} on a {kind} cache, got ")


@pytest.mark.parametrize(("keep", "field", "value"), WRONG_KEEP)
def test_a_field_of_another_window_is_refused_by_name(keep: str, field: str, value: Any) -> None:
    (line,) = refused(cache(kind="window", window=8, keep=keep, **{field: value}))
    assert line.startswith(f"caches[0].{field}: expected no {field} on a window that keeps {keep}")
