"""Many given requests at once: int64 arrays where nothing can overflow, else one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kvplan.kernels.instance import LIVE, STATE, CacheRule, FixedRequests, GivenRequests
from kvplan.kernels.need import is_simple, placeholder_blocks, request_blocks

SAFE = 2**30  # capacities, counts, groups below this cannot overflow a product in int64
_INT64 = 2**63

Columns = tuple[Any, Any, Any]
"""Capacity, history and count of requests with attention, each int64 [request]."""


def columns_of(requests: Sequence[FixedRequests]) -> Columns | None:
    """The requests as columns; None where a figure is too large for products, or none attends."""
    import numpy as np

    columns = (
        requests.columns if isinstance(requests, GivenRequests) else zip(*requests, strict=True)
    )
    try:
        rows = np.array([*columns], dtype=np.int64)  # [3, request]
    except OverflowError:
        return None
    if not rows.size or int(rows.max()) >= SAFE:
        return None
    if not rows[0].all():
        rows = rows[:, rows[0] > 0]
    return (rows[0], rows[1], rows[2]) if rows.size else None


def few_simple_blocks(
    rules: Sequence[CacheRule], requests: Iterable[tuple[int, int, int]]
) -> list[int]:
    """Raw blocks of some requests by rule, all rules simple and no shared prefix.

    What a full cache would hold is counted once for a block size; only windows that the longest
    history has outgrown look at every request.
    """
    bearing = [request for request in requests if request[0]]
    number = sum([count for _, _, count in bearing])
    longest = max([history for _, history, _ in bearing], default=0)
    held: dict[int, int] = {}
    found = []
    for rule in rules:
        t = rule.block_tokens
        blocks = held.get(t)
        if blocks is None:
            blocks = held[t] = sum([count * -(-capacity // t) for capacity, _, count in bearing])
        if rule.kind == LIVE:
            offset, sinks = 1 - rule.reach, rule.sink_blocks
            if (longest + offset) // t > sinks:
                stale = [(count, (history + offset) // t - sinks) for _, history, count in bearing]
                blocks -= sum([count * gone for count, gone in stale if gone > 0])
        found.append(rule.groups * (blocks + rule.extra_blocks * number))
    return found


def simple_blocks_of(rules: Iterable[CacheRule], columns: Columns | None) -> dict[CacheRule, int]:
    """Raw blocks of all requests by rule, for the rules that one pass may take.

    m sum(count (ceil(C/t) + extra - max(0, (H+1-W)//t - S))), without a shared prefix.
    """
    if columns is None:
        return {}
    capacity, history, count = columns
    if int(capacity.max()) * int(count.max()) * len(count) >= _INT64:
        return {}
    requests = int(count.sum())
    found: dict[CacheRule, int] = {}
    sizes: dict[int, list[CacheRule]] = {}
    for rule in rules:
        if is_simple(rule) and max(rule.reach, rule.sink_blocks, rule.block_tokens) < SAFE:
            sizes.setdefault(rule.block_tokens, []).append(rule)
    for t, alike in sizes.items():
        held = int((-(-capacity // t) * count).sum())
        stale = _stale(t, [rule for rule in alike if rule.kind == LIVE], history, count)
        for rule in alike:
            blocks = held + rule.extra_blocks * requests - stale.get(rule, 0)
            found[rule] = rule.groups * blocks
    return found


def _stale(t: int, windows: list[CacheRule], history: Any, count: Any) -> dict[CacheRule, int]:
    """Stale blocks of all requests by window, block sizes alike."""
    longest = int(history.max()) + 1
    windows = [rule for rule in windows if (longest - rule.reach) // t > rule.sink_blocks]
    if not windows:
        return {}
    import numpy as np

    figures = np.array([(rule.reach, rule.sink_blocks) for rule in windows], dtype=np.int64)
    stale = (history + 1 - figures[:, :1]) // t - figures[:, 1:]  # [window, request]
    np.maximum(stale, 0, out=stale)
    return dict(zip(windows, (stale @ count).tolist(), strict=True))


def blocks_of(
    rule: CacheRule,
    requests: Sequence[FixedRequests],
    columns: Columns | None,
    flight: int,
    prefix_blocks: int,
) -> int:
    """Raw blocks of all requests in one cache of any rule.

    Parameters
    ----------
    flight : tokens in flight, resolved.
    """
    if rule.kind == STATE:
        return placeholder_blocks(rule) * sum([number for _, _, number in requests])
    figures = (
        *(rule.groups, rule.extra_blocks, rule.reach, rule.rewind, flight),
        *(rule.sink_blocks, rule.block_tokens, prefix_blocks),
    )
    if columns is None or max(*figures, *(rule.scratch or ())) >= SAFE:
        return sum(
            number * int(request_blocks(rule, capacity, history, flight, prefix_blocks))
            for capacity, history, number in requests
            if capacity
        )
    capacity, history, count = columns
    blocks = request_blocks(rule, capacity, history, flight, prefix_blocks)
    if int(blocks.max()) * int(count.max()) * len(count) >= _INT64:
        return sum(int(b) * int(n) for b, n in zip(blocks, count, strict=True))
    return int((blocks * count).sum())
