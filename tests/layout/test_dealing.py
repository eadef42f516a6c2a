"""Layers with pages of several sizes dealt to groups, against every way to deal them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from kvplan.solver.layout.packed import dealing
from kvplan.solver.layout.packed.dealing import (
    dealt_best,
    dealt_greedily,
    fullest,
    is_settled,
    least_fullest,
)


def every_fullest(sizes: tuple[int, ...], counts: tuple[int, ...], groups: int) -> int:
    pages = [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)]
    found = []
    for places in product(range(groups), repeat=len(pages)):
        loads = [0] * groups
        for page, place in zip(pages, places, strict=True):
            loads[place] += page
        found.append(max(loads))
    return min(found)


@pytest.mark.parametrize("most_patterns", [0, dealing.MOST_PATTERNS])
def test_the_fullest_group_is_the_smallest_of_all_ways(
    most_patterns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dealt by patterns of a group, and layer by layer where those are too many."""
    monkeypatch.setattr(dealing, "MOST_PATTERNS", most_patterns)
    dealt_best.cache_clear()
    random = Random(3)
    unsettled = 0
    for _ in range(120):
        buckets = random.randint(2, 3)
        sizes = tuple(random.randint(1, 9) for _ in range(buckets))
        counts = tuple(random.randint(0, 3) for _ in range(buckets))
        groups = random.randint(1, 3)
        best, dealt = every_fullest(sizes, counts, groups), dealt_best(sizes, counts, groups)
        assert fullest(sizes, dealt) == best
        assert tuple(map(sum, zip(*dealt, strict=True))) == counts
        assert least_fullest(sizes, counts, groups) <= best
        assert fullest(sizes, dealt_greedily(sizes, counts, groups)) >= best
        unsettled += not is_settled(sizes, counts, groups)
    assert unsettled > 10


def test_greed_is_not_always_the_best() -> None:
    """Two pages of 5 and three of 4 in two groups: greedily 13, at best 12, the bound is 11."""
    sizes, counts = (5, 4), (2, 3)
    assert fullest(sizes, dealt_greedily(sizes, counts, 2)) == 13
    assert fullest(sizes, dealt_best(sizes, counts, 2)) == 12
    assert least_fullest(sizes, counts, 2) == 11


def test_a_bound_that_no_dealing_meets_is_settled() -> None:
    """Pages of 4, 3 and 2 in 42 groups: on average 4, but pages of 3 pair with nothing in 5."""
    sizes, counts = (4, 3, 2), (14, 30, 11)
    assert least_fullest(sizes, counts, 42) == 4
    assert fullest(sizes, dealt_best(sizes, counts, 42)) == 6
