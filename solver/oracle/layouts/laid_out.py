"""Pages laid out in a block, and the blocks that a request touches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.layouts import Bucket, LayoutQuestion
from kvplan.models.pools import Cache
from kvplan.solver.oracle.blocks import footprint


class Slot(NamedTuple):
    """One layer of a group.

    Attributes
    ----------
    bucket : index in the question.
    """

    bucket: int
    stage: int


def page(bucket: Bucket, block_tokens: int) -> int:
    """Bytes of one layer's page: the first whole byte at which all its tokens have room."""
    if bucket.token_bytes is None:
        return bucket.state_bytes or 0
    room = bucket.token_bytes * block_tokens
    whole = room.numerator // room.denominator
    return whole if whole == room else whole + 1


def block_end(pages: Iterable[int]) -> int:
    """Where a block ends in which these pages lie one behind the other."""
    end = 0
    for size in pages:
        end += size
    return end


def request_blocks(bucket: Bucket, block_tokens: int, capacity: int, *, full: bool) -> int:
    """Blocks of one request in one group, by the tokens that lie in each.

    Parameters
    ----------
    full : the bucket is held as full attention is.
    """
    kept: Cache = bucket
    if full:
        kept = Cache.model_validate({"name": bucket.name, "kind": "full", "shards": bucket.shards})
    flight = bucket.in_flight if isinstance(bucket.in_flight, int) else 1
    tokens = max(1, block_tokens) * (bucket.shards or 1)
    return footprint(kept, tokens, capacity, capacity - 1, flight, 0).own


def workload_blocks(
    question: LayoutQuestion, bucket: Bucket, block_tokens: int, *, full: bool
) -> Fraction:
    """Blocks of the whole workload in one group, each request by its weight."""
    return sum(
        (
            request.weight * request_blocks(bucket, block_tokens, request.capacity, full=full)
            for request in question.requests
        ),
        Fraction(0),
    )


def rule_of(bucket: Bucket, *, full: bool) -> tuple[object, ...]:
    """What decides how many blocks a bucket needs, apart from its block tokens."""
    shards = bucket.shards or 1
    if full or bucket.kind == "full":
        return ("full", shards, 0 if full else bucket.extra_blocks)
    named = (bucket.window, bucket.sink or 0, bucket.chunk, bucket.in_flight or 1)
    kept = bucket.blocks or 1 if bucket.kind == "state" else 0
    return (bucket.retention, shards, *named, kept, bucket.extra_blocks)


def held_copies(
    question: LayoutQuestion,
    shared: Sequence[int],
    blocks: int,
    own: Sequence[int],
) -> int:
    """Copies of the workload that fit, one after the other, until some stage is full.

    Parameters
    ----------
    shared : bytes of a block of the shared pool, by stage.
    blocks, own : of one copy: blocks of the shared pool; bytes in pools of its own, by stage.
    """
    copies = 0
    while all(
        (question.reserved_blocks + (copies + 1) * blocks) * size + (copies + 1) * alone
        <= (question.quota_of(stage) or 0)
        for stage, size, alone in zip(question.stages, shared, own, strict=True)
    ):
        copies += 1
    return copies
