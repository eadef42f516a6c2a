"""Blocks that requests need: every retention rule as the constants of one formula.

One source for Python integers and for integer arrays of any array-API library: `capacity`,
`history` and `flight` may be either. Only arithmetic and comparison are used, and `//` is floor
division.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.kernels.instance import FLIGHT, FULL, LIVE, PEAK, STATE, CacheRule, made

Integers = Any
"""A Python integer or an integer array."""


class ScratchTerm(NamedTuple):
    """Blocks that only this prefill needs count by a fraction."""

    num: int
    den: int
    rewind: int
    reach: int  # W - 1
    first: int  # max(S, B): first block that may go stale


class NeedTerm(NamedTuple):
    """m (clip(ceil(C/t), least, most) - clip((H - stale_from)//t, 0, stale_most) + extra).

    None leaves a bound out: no `most` for full caches and live windows, no `stale_from` for all
    but live windows, no `least` without a shared prefix.
    """

    pool: int
    groups: int  # m
    block_tokens: int  # t
    most: Integers | None = None
    stale_from: Integers | None = None
    stale_most: int | None = None
    extra: int = 0
    scratch: ScratchTerm | None = None
    least: int | None = None


def ceil_div(a: Integers, b: int) -> Integers:
    """ceil(a / b)."""
    return -(-a // b)


def positive(a: Integers) -> Integers:
    """max(0, a)."""
    return a * (a > 0)


def lesser(a: Integers, b: Integers) -> Integers:
    """min(a, b)."""
    return a - (a - b) * (a > b)


def need_term(rule: CacheRule, flight: Integers, prefix_blocks: int = 0) -> NeedTerm:
    """The need of one request with C > 0 in one cache.

    * full: max(ceil(C/t), B) - B
    * window, live: max(ceil(C/t), B) - B - max(0, (H+1-W)//t - max(S, B)), scratch apart
    * window, peak: min(ceil(C/t), S + (W+F+t-3)//t + 1), the worst instant of the slide up to C
    * window, in flight (A = W - 1), and chunked (A = chunk): min(ceil(C/t), ceil((A+F)/t))
    * state: its blocks

    Parameters
    ----------
    flight : F, tokens in flight, resolved ("prefill" becomes chunk x batches in flight).
    prefix_blocks : B, blocks of the shared prefix in this cache.
    """
    pool, kind, t, groups, extra, reach, sink, _, per_batch, state, scratch, rewind = rule
    if kind <= LIVE:
        least = prefix_blocks or None  # a request may be shorter than the prompt that it shares
        extra -= prefix_blocks
        if kind == FULL:
            return NeedTerm(pool, groups, t, None, None, None, extra, None, least)
        first = max(sink, prefix_blocks)
        spared = None if scratch is None else ScratchTerm(*scratch, rewind, reach - 1, first)
        start = reach - 1 + first * t
        return made(NeedTerm, (pool, groups, t, None, start, None, extra, spared, least))
    if kind == STATE:
        return NeedTerm(pool, groups, 1, 0, extra=state + extra)
    if kind == PEAK:
        return NeedTerm(pool, groups, t, sink + (reach + flight + t - 3) // t + 1, extra=extra)
    most = ceil_div(reach + (0 if per_batch else flight), t)
    return NeedTerm(pool, groups, t, most, extra=extra)


def prefix_term(rule: CacheRule, prefix_blocks: int) -> NeedTerm | None:
    """Blocks of a shared prefix that a batch holds once, at the least history of its requests.

    B for `full`; less those stale for every request for `live`: m (B - |[S, min(B, stale end))|).
    None where the cache holds none of it.
    """
    if not prefix_blocks or rule.kind > LIVE:
        return None
    stale_from = stale_most = None
    if rule.kind == LIVE:
        stale_from = rule.reach - 1 + rule.sink_blocks * rule.block_tokens
        stale_most = max(0, prefix_blocks - rule.sink_blocks)
    return NeedTerm(
        rule.pool, rule.groups, rule.block_tokens, 0, stale_from, stale_most, prefix_blocks
    )


def blocks(term: NeedTerm, capacity: Integers, history: Integers) -> Integers:
    """Blocks at a capacity C > 0 and history H: the formula of `NeedTerm`."""
    _, groups, t, most, stale_from, stale_most, extra, scratch, least = term
    held = -(-capacity // t)
    if least is not None:
        held = held + positive(least - held)
    if most is not None:
        held = lesser(held, most)
    if stale_from is not None:
        stale = (history - stale_from) // t
        stale = stale * (stale > 0)
        held = held - (stale if stale_most is None else lesser(stale, stale_most))
    if extra:
        held = held + extra
    if scratch is not None:
        lent = scratch_blocks(scratch, t, capacity, history)
        held = positive(held - lent + ceil_div(lent * scratch.num, scratch.den))
    return held if groups == 1 else groups * held


def scratch_blocks(
    scratch: ScratchTerm, block_tokens: int, capacity: Integers, history: Integers
) -> Integers:
    """|stale(max(0, C-R)) with [max(B, ceil(H/t)), ceil(C/t))|."""
    reached = (positive(capacity - scratch.rewind) - scratch.reach) // block_tokens
    written = ceil_div(history, block_tokens)
    return positive(reached - (written + positive(scratch.first - written)))


def stale_blocks(term: NeedTerm, history: int) -> int:
    """Blocks of a term that are stale at a history."""
    if term.stale_from is None:
        return 0
    stale = max(0, (history - int(term.stale_from)) // term.block_tokens)
    return stale if term.stale_most is None else min(stale, term.stale_most)


def request_blocks(
    rule: CacheRule, capacity: Integers, history: Integers, flight: Integers, prefix_blocks: int
) -> Integers:
    """Blocks of one request with C > 0 in one cache, groups and extra blocks included."""
    return blocks(need_term(rule, flight, prefix_blocks), capacity, history)


def placeholder_blocks(rule: CacheRule) -> int:
    """Blocks of one request with C = 0: state only."""
    if rule.kind == STATE:
        return rule.groups * (rule.state_blocks + rule.extra_blocks)
    return 0


def batch_flight_blocks(rule: CacheRule, flight: Integers) -> Integers:
    """m ceil(F/t) of a cache whose flight the whole batch shares; 0 for others."""
    if rule.kind == FLIGHT and rule.flight_per_batch:
        return rule.groups * ceil_div(flight, rule.block_tokens)
    return 0


def usable_for(raw_blocks: Integers, use_num: int, use_den: int) -> Integers:
    """ceil(raw / resume_utilization): one division and one ceil for the whole pool."""
    return ceil_div(raw_blocks * use_den, use_num)
