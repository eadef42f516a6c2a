"""Blocks that requests need, rule by rule.

One source for Python integers and for integer arrays of any array-API library: arguments named
`capacity` and `history` may be either (shape [request]); results have the same shape. Only
arithmetic and comparison are used, and `//` is floor division.
"""

from __future__ import annotations

from typing import Any

from kvplan.kernels.instance import FLIGHT, FULL, LIVE, PEAK, STATE, CacheRule

Integers = Any
"""A Python integer or an integer array."""


def ceil_div(a: Integers, b: int) -> Integers:
    """ceil(a / b)."""
    return -(-a // b)


def positive(a: Integers) -> Integers:
    """max(0, a)."""
    return a * (a > 0)


def lesser(a: Integers, b: int) -> Integers:
    """min(a, b)."""
    return a - positive(a - b)


def stale_end(history: Integers, rule: CacheRule) -> Integers:
    """(H + 1 - W) // t: blocks from the sink up to here hold no token that a query can see.

    May lie below the sink: then nothing is stale (TensorRT-LLM V2, _life_cycle_registry.py).
    """
    return (history + 1 - rule.reach) // rule.block_tokens


def live_blocks(
    capacity: Integers, history: Integers, rule: CacheRule, prefix_blocks: int
) -> Integers:
    """|[B, ceil(C/t)) minus stale(H)|, the blocks that a request holds beside B shared ones.

    Full caches have no stale range. With B = 0 a window's need is
    ceil(C/t) - max(0, (H+1-W)//t - S).
    """
    own = ceil_div(capacity, rule.block_tokens) - prefix_blocks
    if prefix_blocks:
        own = positive(own)
    if rule.kind == FULL:
        return own
    return own - positive(stale_end(history, rule) - max(rule.sink_blocks, prefix_blocks))


def simple_blocks(rule: CacheRule, capacity: int, history: int) -> int:
    """`request_blocks` of a rule that `is_simple`, for one request in plain integers.

    The hot case of every search: m (ceil(C/t) + extra - max(0, (H+1-W)//t - S)).
    """
    t = rule.block_tokens
    own = -(-capacity // t) + rule.extra_blocks
    if rule.kind == LIVE:
        stale = (history + 1 - rule.reach) // t - rule.sink_blocks
        if stale > 0:
            own -= stale
    return own * rule.groups


def is_simple(rule: CacheRule) -> bool:
    """Whether a cache is full or a live window without scratch; a prefix is another matter."""
    return rule.kind <= LIVE and rule.scratch is None


def scratch_blocks(
    capacity: Integers, history: Integers, rule: CacheRule, prefix_blocks: int
) -> Integers:
    """|stale(max(0, C-R)) with [max(B, ceil(H/t)), ceil(C/t))|: blocks only this prefill needs."""
    reached = stale_end(positive(capacity - rule.rewind), rule)
    written = ceil_div(history, rule.block_tokens)
    first = max(rule.sink_blocks, prefix_blocks)
    start = written + positive(first - written)
    return positive(reached - start)


def peak_blocks(capacity: Integers, flight: int, rule: CacheRule) -> Integers:
    """min(ceil(C/t), S + (W+F+t-3)//t + 1): the worst instant of the slide up to C."""
    t = rule.block_tokens
    worst = rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1
    return lesser(ceil_div(capacity, t), worst)


def reach_blocks(capacity: Integers, flight: int, rule: CacheRule) -> Integers:
    """ceil(min(A + F, C) / t) with A = W - 1 (vLLM windows) or the chunk (chunked local)."""
    return ceil_div(lesser(capacity, rule.reach + flight), rule.block_tokens)


def request_blocks(
    rule: CacheRule, capacity: Integers, history: Integers, flight: int, prefix_blocks: int
) -> Integers:
    """Blocks of one request with C > 0 in one cache, groups and extra blocks included.

    Parameters
    ----------
    flight : tokens in flight, resolved ("prefill" becomes chunk x batches in flight).
    prefix_blocks : blocks of the shared prefix in this cache.
    """
    if rule.kind == STATE:
        return rule.groups * (rule.state_blocks + rule.extra_blocks) + capacity * 0
    if rule.kind == PEAK:
        own = peak_blocks(capacity, flight, rule)
    elif rule.kind == FLIGHT:
        own = reach_blocks(capacity, 0 if rule.flight_per_batch else flight, rule)
    else:
        own = live_blocks(capacity, history, rule, prefix_blocks)
    own = own + rule.extra_blocks
    if rule.scratch is not None and rule.kind == LIVE:
        scratch = scratch_blocks(capacity, history, rule, prefix_blocks)
        num, den = rule.scratch
        own = positive(own - scratch + ceil_div(scratch * num, den))
    return rule.groups * own


def placeholder_blocks(rule: CacheRule) -> int:
    """Blocks of one request with C = 0: state only."""
    if rule.kind == STATE:
        return rule.groups * (rule.state_blocks + rule.extra_blocks)
    return 0


def batch_flight_blocks(rule: CacheRule, flight: int) -> int:
    """m ceil(F/t) of a cache whose flight the whole batch shares; 0 for others."""
    if rule.kind == FLIGHT and rule.flight_per_batch:
        return int(rule.groups * ceil_div(flight, rule.block_tokens))
    return 0


def usable_for(raw_blocks: int, use_num: int, use_den: int) -> int:
    """ceil(raw / resume_utilization): one division and one ceil for the whole pool."""
    return int(ceil_div(raw_blocks * use_den, use_num))
