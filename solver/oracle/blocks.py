"""Which block holds which token, and which blocks of a cache one request keeps.

Blocks of t tokens: block i holds the tokens i·t .. i·t + t - 1. Whatever is true of "the tokens
before some token" is true of a first stretch of blocks, so a set of blocks is a `range`, as cheap
for a million tokens as for ten.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kvplan.models.pools import Cache


class Footprint(NamedTuple):
    """What one request holds in one cache, in logical blocks (groups are not counted)."""

    own: int
    dead: range
    """Blocks whose tokens no query sees any more, whoever allocated them."""


def touched(tokens: int, block_tokens: int) -> int:
    """Blocks that hold one of the first `tokens` tokens: those whose first token is among them."""
    return _length(range(0, tokens, block_tokens))


def completed(tokens: int, block_tokens: int) -> int:
    """Blocks that hold none but the first `tokens` tokens: their last token is among them."""
    return _length(range(block_tokens - 1, tokens, block_tokens))


def overlap(left: range, right: range) -> int:
    """Blocks in both of two stretches."""
    return max(0, min(left.stop, right.stop) - max(left.start, right.start))


def _length(steps: range) -> int:
    # len() stops at 2^63, a flight of chunk x batches need not.
    return (steps[-1] - steps[0]) // steps.step + 1 if steps else 0


def dead_blocks(cache: Cache, block_tokens: int, history: int) -> range:
    """Blocks that the query at token `history` and all later ones no longer see.

    The query sees itself and the W - 1 tokens before it. A block is dead when its last token lies
    before those, unless one of its tokens is a sink.
    """
    if cache.window is None:
        return range(0)
    first_seen = history + 1 - cache.window
    return range(touched(cache.sink or 0, block_tokens), completed(first_seen, block_tokens))


def footprint(
    cache: Cache, block_tokens: int, capacity: int, history: int, flight: int, prefix: int
) -> Footprint:
    """Blocks of one request with tokens (capacity > 0), at its declared instant.

    Parameters
    ----------
    block_tokens : tokens of one block, over all shards.
    flight : tokens in flight that the cache counts on.
    prefix : tokens shared by the batch; its whole blocks are nobody's own.
    """
    extra = cache.extra_blocks
    match cache.retention:
        case "state":
            return Footprint((cache.blocks or 1) + extra, range(0))
        case "peak":
            return Footprint(_peak(cache, block_tokens, capacity, flight) + extra, range(0))
        case "in_flight" | "chunked":
            held = _seen_before(cache)
            if cache.in_flight_per != "batch":
                held += flight
            return Footprint(touched(min(held, capacity), block_tokens) + extra, range(0))
    dead = dead_blocks(cache, block_tokens, history)
    first_own = completed(prefix, block_tokens)
    own = range(first_own, touched(capacity, block_tokens))
    live = max(0, own.stop - own.start) - overlap(own, dead) + extra
    return Footprint(_with_scratch(cache, block_tokens, capacity, history, own, live), dead)


def flight_blocks(cache: Cache, block_tokens: int, flight: int) -> int:
    """Blocks of the flight that a batch holds once, where requests share it."""
    return touched(flight, block_tokens) if cache.in_flight_per == "batch" else 0


def worst_window(cache: Cache, block_tokens: int) -> int:
    """Blocks at the worst instant of an endless slide, one token in flight."""
    endless = 3 * block_tokens + (cache.sink or 0) + (cache.window or 1)
    return _peak(cache, block_tokens, endless, 1)


def _seen_before(cache: Cache) -> int:
    """Tokens before the flight that its first query may see."""
    return cache.chunk or 0 if cache.kind == "chunked" else (cache.window or 1) - 1


def _with_scratch(
    cache: Cache, block_tokens: int, capacity: int, history: int, own: range, live: int
) -> int:
    """Count again with the scratch blocks at their fraction of a slot.

    Scratch is an own block without a history token that is dead once the flight is computed
    (all of it but what speculative decoding may take back): only the running prefill needs it.
    """
    if cache.scratch is None:
        return live
    after = max(0, capacity - cache.scratch.max_rewind)
    fresh = range(max(own.start, touched(history, block_tokens)), own.stop)
    scratch = overlap(fresh, dead_blocks(cache, block_tokens, after))
    return max(0, live - scratch + math.ceil(scratch * cache.scratch.fraction))


def _peak(cache: Cache, block_tokens: int, capacity: int, flight: int) -> int:
    """Most blocks alive at any instant of the slide from the first token to the last.

    At the instant whose newest token is e, the flight began at e + 1 - flight. A block is born with
    its first token, so the count is largest at a birth; and from one birth to the next at most one
    block dies, so no birth leaves fewer than the one before it: the last one tells.
    """
    newest = range(0, capacity, block_tokens)[-1]
    born = touched(newest + 1, block_tokens)
    return born - _length(dead_blocks(cache, block_tokens, newest + 1 - flight))
