"""Own pools over pipeline stages: each takes another share of every stage."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models.layouts import LayoutQuestion
from kvplan.solver import plan
from kvplan.solver.layout import layout
from kvplan.solver.layout.stage_widths import width_vectors
from kvplan.solver.oracle.layouts import best_layout

Bucket = dict[str, Any]


def state(name: str, layers: dict[str, int], bytes_: int, blocks: int = 1) -> Bucket:
    size = {"state_bytes": bytes_, "blocks": blocks}
    return {"name": name, "kind": "state", "layers": layers, **size}


def asked(*buckets: Bucket, capacity: int = 96, **more: Any) -> LayoutQuestion:
    rows = [{"capacity": capacity}]
    return LayoutQuestion.model_validate({"buckets": buckets, "requests": rows, **more})


@pytest.mark.parametrize("pages", ["uniform", "packed"])
def test_stages_take_groups_of_other_widths(pages: str) -> None:
    """Stage 1 holds a large own pool, so it takes one layer a group, stage 0 its two.

    n = 3 blocks a group: (2, 1) takes max(2 x 9, 1 x 9 + 30) = 39; (1, 1) 42, (2, 2) 42.
    """
    own = {**state("own", {"1": 1}, 30), "own_pool": True}
    b = {**state("b", {"1": 2}, 1, 2), "extra_blocks": 1}
    question = asked(state("a", {"0": 2}, 1, 3), b, own, pages=pages)
    found = layout(question, freedom=False)
    assert found.figures.bytes == 39
    assert [len(group.layers) for group in found.layout.groups] == [2, 1, 1, 1]
    assert best_layout(question) == (0, 39, 4)


def test_where_an_own_pool_alone_decides_the_fewest_groups_win() -> None:
    """Blocks of 124 B: four layers of 16 tokens in one group, or of 48 in two: fewer blocks.

    The own pool's 13,150 B stand above either, but below 128 x 103 B of blocks of 32 tokens.
    """
    full = {"name": "full", "kind": "full", "layers": {"0": 4}, "token_bytes": 1}
    question = asked(
        {**full, "max_tokens_per_block": 112},
        state("s", {"0": 1}, 124, 100),
        {**state("own", {"1": 1}, 13_150), "own_pool": True},
        pages="packed",
    )
    found = layout(question, freedom=False)
    assert (found.figures.bytes, found.figures.groups) == (13_150, 3)
    assert best_layout(question) == (0, 13_150, 3)


@pytest.mark.parametrize("pages", ["uniform", "packed"])
def test_the_problem_of_the_layout_holds_what_the_layout_says(pages: str) -> None:
    """A draft on the last stage in a pool of its own; the longest request takes all bytes."""
    question = asked(
        {"name": "full", "kind": "full", "layers": {"0": 5, "1": 4}, "token_bytes": 64},
        {
            "name": "draft",
            "kind": "window",
            "layers": {"1": 3},
            "token_bytes": 48,
            "window": 64,
            "in_flight": 32,
            "keep": "in_flight",
            "own_pool": True,
        },
        state("gdn", {"0": 7, "1": 8}, 5000, 2) | {"own_pool": True},
        capacity=4096,
        pages=pages,
    )
    found = layout(question)
    pools = {pool.name: pool.block_bytes for pool in found.layout.pools}
    assert pools["draft"]["0"] == 0
    floors = plan(found.problem).floors
    used = [sum(floors[name] * sizes[stage] for name, sizes in pools.items()) for stage in "01"]
    assert max(used) == found.figures.bytes == found.proof.bound
    assert found.figures.bytes >= found.proof.floor_bytes
    freed = {each.permission: each.bytes for each in found.freedom}
    assert freed["a pool of its own for any bucket"] <= found.figures.bytes


@pytest.mark.parametrize(
    ("quotas", "own", "vectors"),
    [
        ((), (0, 0), {(1, 1), (2, 2), (3, 2)}),
        ((), (0, 5), {(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)}),
        ((2, 1), (0, 0), {(2, 1), (3, 1), (3, 2)}),
    ],
)
def test_widths_of_two_stages(
    quotas: tuple[int, ...], own: tuple[int, ...], vectors: set[tuple[int, ...]]
) -> None:
    """Stages of three and of two layers; own pools on the second narrow its groups alone."""
    assert set(width_vectors((3, 2), quotas, own)) == vectors


def test_widths_of_three_stages_are_those_of_a_fine_grid() -> None:
    """floor(v - O u) over a grid of v and u that has a point in each cell."""
    most, own, fine = (5, 4, 5), (0, 7, 3), 168  # twice the lcm of the differences 7, 4 and 3
    held = {
        tuple(min(n, (v - o * u) // fine) for n, o in zip(most, own, strict=True))
        for u in range(fine + 1)
        for v in range(12 * fine)
    }
    assert set(width_vectors(most, (), own)) == {vector for vector in held if min(vector) >= 1}
