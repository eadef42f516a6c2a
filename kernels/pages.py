"""Bytes of pages and blocks under a layout: what block tokens, widths and groups cost.

One source for Python integers and for integer arrays, as `kernels.need`: every argument may be
either.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.instance import CacheRule
from kvplan.kernels.need import Integers, ceil_div, request_blocks


def page_bytes(block_tokens: Integers, num: int, den: int, fixed: int) -> Integers:
    """ceil(t x num / den) + fixed: a layer's page of t tokens, or a state's (num 0)."""
    return ceil_div(block_tokens * num, den) + fixed


def group_count(layers: Integers, width: Integers) -> Integers:
    """ceil(n / w): groups of at most w layers each."""
    return -(-layers // width)


def workload_blocks(rule: CacheRule, requests: Sequence[tuple[int, int]]) -> Integers:
    """Sum over (capacity, weight) of weight x blocks of one group.

    The rule's block tokens may be an array; then so is the sum. One token is in flight beside the
    history, which no rule but a live window's asks for.
    """
    total: Integers = 0
    for capacity, weight in requests:
        total = total + weight * request_blocks(rule, capacity, capacity - 1, rule.flight, 0)
    return total


def copies_held(
    quota: Integers, block_bytes: Integers, reserved: int, blocks: Integers, own_bytes: Integers
) -> Integers:
    """Largest n with (reserved + n x blocks) x block bytes + n x own bytes <= quota.

    Shared blocks of a copy, and bytes of a copy in pools of its own. Negative: not even 0 fit.
    """
    return (quota - reserved * block_bytes) // (block_bytes * blocks + own_bytes)
