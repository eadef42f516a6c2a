"""Bytes of pages and blocks under a layout, for integers and arrays alike."""

from __future__ import annotations

import numpy as np
import pytest

from kvplan.kernels.instance import FLIGHT, FULL, STATE, CacheRule
from kvplan.kernels.pages import copies_held, group_count, page_bytes, workload_blocks


@pytest.mark.parametrize(
    ("tokens", "num", "den", "fixed", "expected"),
    [(16, 4096, 1, 0, 65_536), (3, 5, 2, 0, 8), (4, 5, 2, 0, 10), (0, 0, 1, 77, 77)],
)
def test_a_page_rounds_a_fraction_of_a_byte_up(
    tokens: int, num: int, den: int, fixed: int, expected: int
) -> None:
    assert page_bytes(tokens, num, den, fixed) == expected


@pytest.mark.parametrize(
    ("layers", "width", "groups"), [(48, 17, 3), (51, 17, 3), (52, 17, 4), (0, 5, 0)]
)
def test_groups_of_a_width(layers: int, width: int, groups: int) -> None:
    assert group_count(layers, width) == groups


def test_a_workload_weighs_its_requests() -> None:
    rule = CacheRule(0, FULL, block_tokens=16)
    assert workload_blocks(rule, ((33, 2), (16, 1))) == 2 * 3 + 1


@pytest.mark.parametrize("kind", [FULL, FLIGHT, STATE])
def test_block_tokens_may_be_an_array(kind: int) -> None:
    tokens = np.array([1, 2, 3, 5, 8, 16, 100], dtype=np.int64)
    rules = [CacheRule(0, kind, int(t), reach=7, flight=5, state_blocks=2) for t in tokens]
    each = [workload_blocks(rule, ((41, 3), (9, 1))) for rule in rules]
    at_once = workload_blocks(rules[0]._replace(block_tokens=tokens), ((41, 3), (9, 1)))
    assert (at_once + 0 * tokens).tolist() == each


@pytest.mark.parametrize("own", [0, 11])
@pytest.mark.parametrize("reserved", [0, 1, 3])
def test_copies_are_the_last_that_fit(reserved: int, own: int) -> None:
    block, blocks = 7, 4
    for quota in range(200):
        fits = [n for n in range(40) if (reserved + n * blocks) * block + n * own <= quota]
        held = copies_held(quota, block, reserved, blocks, own)
        assert max(held, -1) == max(fits, default=-1)
