"""Mistakes in batches and requests: one line each."""

from __future__ import annotations

from typing import Any

from support.bad import Table, cache, each_of, refused, request, small

REQUESTS: Table = {
    "null requests": (
        small(batches=[{"name": "b", "requests": None}]),
        "batches[0].requests: expected a list, got null",
    ),
    "no capacity": (request(), "batches[0].requests[0].capacity: expected a value, got none"),
    "capacity as text": (
        request(capacity="10"),
        "batches[0].requests[0].capacity: expected a whole number of at least 0, got '10'",
    ),
    "history above capacity": (
        request(capacity=10, history=11),
        "batches[0].requests[0].history: expected history of at most capacity 10, got 11",
    ),
    "history above a placeholder": (
        request(capacity=0, history=1),
        "batches[0].requests[0].history: expected history of at most capacity 0, got 1",
    ),
    "unknown fit": (
        request(capacity=10, fit="both"),
        "batches[0].requests[0].fit: expected 'none', 'capacity' or 'count', got 'both'",
    ),
    "min_capacity of no fit": (
        request(capacity=10, min_capacity=5),
        "batches[0].requests[0].min_capacity: expected fit: capacity beside min_capacity, "
        "got fit: none",
    ),
    "min_capacity of another fit": (
        request(capacity=10, min_capacity=5, fit="count"),
        "batches[0].requests[0].min_capacity: expected fit: capacity beside min_capacity, "
        "got fit: count",
    ),
    "min_count of no fit": (
        request(capacity=10, min_count=5),
        "batches[0].requests[0].min_count: expected fit: count beside min_count, got fit: none",
    ),
    "min_count above count": (
        request(capacity=10, fit="count", count=4, min_count=5),
        "batches[0].requests[0].count: expected count of at least min_count 5, got 4",
    ),
    "count 0 of a fitted count": (
        request(capacity=10, fit="count", count=0),
        "batches[0].requests[0].count: expected count of at least min_count 1, got 0",
    ),
    "min_capacity above capacity": (
        request(capacity=10, fit="capacity", min_capacity=11),
        "batches[0].requests[0].min_capacity: expected min_capacity of at most capacity 10, got 11",
    ),
    "fitted placeholder": (
        request(capacity=0, fit="capacity"),
        "batches[0].requests[0].capacity: expected a capacity of at least 1 beside fit: capacity, "
        "got 0",
    ),
    "fitted below its prefix": (
        small(
            batches=[
                {
                    "name": "b",
                    "shared_prefix": 99,
                    "requests": [{"capacity": 10, "fit": "capacity"}],
                }
            ]
        ),
        "batches[0].requests[0].history: expected history of at least shared_prefix 99, got 9",
    ),
    "two requests of a name": (
        small(batches=[{"name": "b", "requests": [{"name": "q", "capacity": 1}] * 2}]),
        "batches[0].requests[1].name: expected a unique name, got 'q' again",
    ),
    "a name that another has by default": (
        small(
            batches=[{"name": "b", "requests": [{"capacity": 1}, {"name": "b.0", "capacity": 1}]}]
        ),
        "batches[0].requests[1].name: expected a unique name, got 'b.0' again",
    ),
    "two fitted requests of a name": (
        small(
            batches=[
                {"name": b, "requests": [{"name": "q", "capacity": 9, "fit": "capacity"}]}
                for b in ("b", "c")
            ]
        ),
        "batches[1].requests[0].name: expected a unique name, got 'q' again",
    ),
    "no cache": (
        request(capacity=9, caches=[]),
        "batches[0].requests[0].caches: expected at least one cache, got an empty list",
    ),
    "an unknown cache": (
        {**cache(kind="full"), **request(capacity=9, caches=["c", "d"])},
        "batches[0].requests[0].caches[1]: expected one of c, got 'd'",
    ),
    "a cache twice": (
        {**cache(kind="full"), **request(capacity=9, caches=["c", "c"])},
        "batches[0].requests[0].caches[1]: expected each cache once, got 'c' again",
    ),
    "caches beside a prefix": (
        cache(kind="full")
        | small(
            batches=[
                {
                    "name": "b",
                    "shared_prefix": 4,
                    "requests": [{"capacity": 9, "caches": ["c"]}],
                }
            ]
        ),
        "batches[0].requests[0].caches: expected no caches on a request of a batch with a "
        "shared_prefix, got 4 shared tokens",
    ),
    "two batches of a name": (
        small(batches=[{"name": "b", "requests": []}] * 2),
        "batches[1].name: expected a unique name, got 'b' again",
    ),
}


@each_of(REQUESTS)
def test_a_mistake_in_the_requests_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]
