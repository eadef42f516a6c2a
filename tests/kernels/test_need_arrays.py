"""One source for integers and arrays: the same functions give the same blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels.instance import CacheRule
from kvplan.kernels.need import blocks, prefix_term, request_blocks
from support.instance import KINDS


@st.composite
def rules(draw: Any) -> CacheRule:
    small = st.integers(0, 40)
    return CacheRule(
        pool=0,
        kind=draw(st.sampled_from(sorted(KINDS.values()))),
        block_tokens=draw(st.integers(1, 9)),
        groups=draw(st.integers(1, 3)),
        extra_blocks=draw(st.integers(0, 2)),
        reach=draw(st.integers(1, 40)),
        sink_blocks=draw(st.integers(0, 5)),
        flight_per_batch=draw(st.booleans()),
        state_blocks=draw(st.integers(1, 3)),
        scratch=draw(st.sampled_from([None, (0, 1), (1, 4), (2, 3), (1, 1)])),
        rewind=draw(small),
    )


@given(rules(), st.integers(1, 50), st.integers(0, 8))
def test_arrays_give_what_integers_give(of: CacheRule, flight: int, prefix_blocks: int) -> None:
    pairs = [(c, h) for c in (1, 2, 7, 30, 64, 97) for h in range(c + 1)]
    capacity, history = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    at_once = request_blocks(of, capacity, history, flight, prefix_blocks)
    assert at_once.shape == capacity.shape
    assert at_once.dtype == np.int64
    one_by_one = [request_blocks(of, c, h, flight, prefix_blocks) for c, h in pairs]
    assert at_once.tolist() == one_by_one
    assert all(type(count) is int and count >= 0 for count in one_by_one)


@given(rules(), st.integers(1, 8))
def test_a_shared_prefix_over_arrays(of: CacheRule, shared: int) -> None:
    term = prefix_term(of, shared)
    if term is not None:
        history = np.arange(120)
        one_by_one = [blocks(term, 0, h) for h in range(120)]
        assert np.broadcast_to(blocks(term, 0, history), 120).tolist() == one_by_one
