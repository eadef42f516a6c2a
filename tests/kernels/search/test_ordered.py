"""Goals one after the other, fill and shares, against all points."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.instance import Buffers
from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.search import Search
from support.instance import search_of
from support.instances import small_problem
from support.micro import micro, one
from support.points import MOST_OPEN, Points


@pytest.mark.parametrize("part", range(4))
def test_every_goal_reaches_the_best_that_earlier_ones_leave(part: int) -> None:
    """Without choices one bounds is left after every goal, so plain scans can follow."""
    tried = 0
    for seed in range(40 * part, 40 * part + 40):
        problem = small_problem(seed, constraints=False, weighted=False, choices=False)
        search = search_of(problem)
        if search.instance.fill_shares:
            continue
        points, [bounds] = Points(search.instance), search.starts()
        spans = [MOST_OPEN if high is None else high - low for low, high in zip(
            bounds.low, bounds.high, strict=True
        )]  # fmt: skip
        if sum(spans) > 60:
            continue
        answer = solve(search)
        for number, goal in enumerate(search.instance.objectives):
            variable = goal.single
            assert variable is not None
            best = points.largest(bounds, variable)
            if best is None:
                assert answer is None, seed
                break
            assert answer is not None, seed
            assert answer.exact
            weight = goal.members[0].weight
            assert answer.values[number] == answer.bounds[number] == weight * best, (seed, goal)
            bounds = search.settled(bounds, variable, best)
            tried += 1
    assert tried > 30


def shared(quota: int, first: str, second: str) -> Search:
    """Two pools that fill by shares, beside a third one and a granule each."""
    pools = [
        {"name": "a", "bytes": 7, "granule": 16, "reserved_blocks": 1},
        {"name": "b", "bytes": 10, "multiple_of": 2},
        {"name": "c", "bytes": 5},
    ]
    caches = [{"name": f"of {name}", "pool": name, "kind": "full"} for name in "abc"]
    fill = {"shares": {"a": first, "b": second}}
    return search_of(micro(quota, pools=pools, caches=caches, fill=fill, **one(8)))


@pytest.mark.parametrize(("first", "second"), [("0.5", "0.5"), ("1/3", "1/4"), ("0.9", "0.05")])
def test_shares_are_of_what_all_other_pools_leave(first: str, second: str) -> None:
    """The floor of a pool stays where it exceeds the share, and then b takes what is left."""
    for quota in (62, 63, 80, 200, 211, 999):
        search = shared(quota, first, second)
        answer = solve(search)
        assert answer is not None
        pools = next(budget.pools for budget in search.instance.budgets if budget.pools)
        reserved = pool_bytes(1, pools[0])  # stands outside the shares
        rest = quota - pool_bytes(2, pools[2]) - reserved
        limit = min(rest - 20, rest * Fraction(first)) + reserved
        a = largest_within(pools[0], 1, 1, limit)
        left = rest + reserved - pool_bytes(a + 1, pools[0])
        b = largest_within(pools[1], 0, 2, min(left, rest * Fraction(second)))
        assert answer.point.usable == (a, b, 2), quota


def largest_within(buffers: Buffers, reserved: int, multiple: int, limit: Fraction | int) -> int:
    """Most usable blocks within some bytes, the floor of 2 at least."""
    counts = range(0, 200, multiple)
    return max([2, *(n for n in counts if pool_bytes(n + reserved, buffers) <= limit)])


def test_a_byte_less_than_the_floors_holds_nothing() -> None:
    assert solve(shared(61, "0.5", "0.5")) is None
