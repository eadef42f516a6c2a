"""Share pools of an unproven answer, lowered to their share where nothing is lost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvplan.kernels.search.over_shares import within_shares
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point
from support.instance import search_of
from support.micro import micro

POOLS = [{"name": "a", "bytes": 1}, {"name": "b", "bytes": 1}]


def searched(goal: dict[str, Any], shares: dict[str, Any], **sections: Any) -> Search:
    """64 B for two pools that no request needs."""
    base: dict[str, Any] = {"pools": POOLS, "caches": [], "batches": []}
    goals = [{"maximize": goal}]
    return search_of(micro(64, **{**base, **sections}, goals=goals, fill={"shares": shares}))


def lowered(search: Search, *usable: int, exact: bool = False) -> tuple[int, ...]:
    """The blocks that remain of those held."""
    point = Point((), (), 0, (), 0, 0, usable)
    answer = Answer(point, (Fraction(sum(usable)),), (None,), exact)
    return within_shares(search, answer).point.usable


@pytest.mark.parametrize(
    ("goal", "shares", "held", "left"),
    [
        ({"blocks:a": 1, "blocks:b": 1}, {"a": "1/2"}, (64, 0), (32, 32)),  # b makes up for a
        ({"blocks:a": 2, "blocks:b": 1}, {"a": "1/2"}, (64, 0), (64, 0)),  # b cannot
        # The later share gives way to the earlier one.
        ({"blocks:a": 1, "blocks:b": 1}, {"a": "1/2", "b": "1/4"}, (64, 0), (32, 32)),
        ({"blocks:a": 1, "blocks:b": 1}, {"b": "1/4", "a": "1/2"}, (0, 64), (48, 16)),
        ({"blocks:b": 2, "blocks:a": -1}, {"a": "1/2"}, (40, 24), (32, 24)),
    ],
)
def test_a_pool_above_its_share_gives_what_nothing_needs(
    goal: dict[str, Any], shares: dict[str, Any], held: tuple[int, ...], left: tuple[int, ...]
) -> None:
    assert lowered(searched(goal, shares), *held) == left


def test_a_constraint_keeps_blocks_above_the_share() -> None:
    rows = [{"terms": {"blocks:a": 1}, "min": 45}]
    pools = [{**POOLS[0], "multiple_of": 2}, POOLS[1]]
    search = searched({"blocks:b": 1}, {"a": "1/2"}, constraints=rows, pools=pools)
    assert lowered(search, 60, 4) == (46, 4)


def test_a_pool_below_its_share_is_raised_to_it() -> None:
    assert lowered(searched({"blocks:b": 1}, {"a": "1/2"}), 10, 4) == (30, 4)  # of 60 B


def test_a_proven_answer_stays_as_it_is() -> None:
    search = searched({"blocks:a": 1, "blocks:b": 1}, {"a": "1/2"})
    assert lowered(search, 64, 0, exact=True) == (64, 0)
