"""Allocations that double (`granule: pow2`), and the largest one that a device grants."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.kernels.bytes import most_blocks, pool_bytes
from kvplan.models.elastic import Staging
from kvplan.solver import plan
from support.bad import refused as lines
from support.micro import micro, one, pool
from support.solvers import agreed, refused


@pytest.mark.parametrize(
    ("quota", "blocks", "used"), [(100, 6, 64), (64, 6, 64), (63, 3, 32), (128, 12, 128), (9, 0, 0)]
)
def test_a_pool_takes_a_power_of_two(quota: int, blocks: int, used: int) -> None:
    answer = agreed(micro(quota, **pool(granule="pow2")))
    assert (answer.blocks, answer.ranks[0].used) == ({"p": blocks}, used)


@pytest.mark.parametrize("buffers", [((10, 0),), ((10, 0), (3, 1)), ((10, 0), (7, 0), (5, 16))])
def test_most_blocks_are_the_most_within_a_limit(buffers: tuple[tuple[int, int], ...]) -> None:
    for limit in range(400):
        most = most_blocks(limit, buffers)
        assert pool_bytes(most, buffers) <= limit < pool_bytes(most + 1, buffers)
    assert pool_bytes(0, buffers) == 0


@pytest.mark.parametrize(("chunk", "taken"), [(1, 16), (3, 16), (4, 32), (8, 32), (11, 64)])
def test_staging_takes_a_power_of_two(chunk: int, taken: int) -> None:
    entry = Staging(name="s", base=9, per_token="7/3", granule="pow2")
    assert entry.bytes_of(chunk) == taken
    problem = micro(taken, prefill={"requested": chunk, "staging": [entry.model_dump()]})
    assert agreed(problem).ranks[0].phases["prefill"] == taken


def test_staging_of_nothing_takes_nothing() -> None:
    assert Staging(name="s", base=0, granule="pow2").bytes_of(5) == 0


@pytest.mark.parametrize(
    ("fields", "blocks"),
    [
        ({"max_bytes": 59}, 5),
        ({"max_bytes": 59, "granule": 16}, 4),  # 48 B are the last whole granules
        ({"max_bytes": 59, "granule": "pow2"}, 3),
        ({"max_bytes": 60, "max_blocks": 2}, 2),
        ({"max_bytes": 60, "reserved_blocks": 2}, 6),
        ({"buffers": [{"bytes": 10}, {"bytes": {0: 1, "r0": 2}, "max_bytes": 7}]}, 3),
    ],
)
def test_an_allocation_stays_within_the_largest(fields: dict[str, Any], blocks: int) -> None:
    assert agreed(micro(1000, **pool(**fields))).blocks == {"p": blocks}


def test_a_rank_without_the_buffer_grants_any() -> None:
    ranks = [{"name": "r0", "quota": 99}, {"name": "r1", "quota": 99}]
    sizes = {"bytes": {"r0": 10, "r1": 0}, "max_bytes": 35}
    assert agreed(micro(ranks=ranks, **pool(buffers=[sizes]))).blocks == {"p": 3}


def test_words_name_the_limit_that_binds() -> None:
    fitted = plan(micro(1000, **pool(max_bytes=59), **one(100, fit="capacity")))
    assert fitted.requests[0].capacity == 20
    (note,) = fitted.notes
    assert "25 usable blocks needed for 100, max_bytes allows 5" in note
    problem = micro(1000, **pool(max_bytes=59), **one(100))
    refusal = refused(problem)
    assert "pool p needs 25 usable blocks, max_bytes allows 5" in str(refusal)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"bytes": 4, "granule": "auto", "max_bytes": 9},
            'pools[0].granule: expected bytes or "pow2" beside max_bytes, got "auto"',
        ),
        (
            {"bytes": 4, "reserved_blocks": 3, "max_bytes": 9},
            "pools[0].max_bytes: expected max_bytes for the 3 reserved blocks, got 9",
        ),
        (
            {"buffers": [{"bytes": 4}], "max_bytes": 9},
            "pools[0].max_bytes: expected max_bytes on each buffer, got one beside buffers",
        ),
    ],
)
def test_bad_limits(fields: dict[str, Any], line: str) -> None:
    data = {"ranks": [{"name": "r", "quota": 9}], "pools": [{"name": "p", **fields}]}
    assert lines(data) == [line]
