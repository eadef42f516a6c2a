"""A layout replayed at full size: every layer placed once, every page in its block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from kvplan.models.layouts import Bucket, LayoutQuestion, PageLayout
from kvplan.models.layouts.page_layout import SHARED, Group
from kvplan.solver.oracle.layouts.laid_out import block_end, page, rule_of, workload_blocks


def layout_faults(question: LayoutQuestion, layout: PageLayout, taken: Fraction) -> list[str]:
    """List every rule that a layout violates, and its bytes where they are others.

    Parameters
    ----------
    taken : bytes of the workload as stated.
    """
    return [
        *_layers(question, layout),
        *(fault for group in layout.groups for fault in _group(question, layout, group)),
        *_blocks(question, layout),
        *_bytes(question, layout, taken),
    ]


def _places(question: LayoutQuestion) -> dict[int, tuple[str, int]]:
    """Bucket and stage of every layer, by position."""
    placed: dict[int, tuple[str, int]] = {}
    next_free = 0
    for bucket in question.buckets:
        where = bucket.positions or tuple(range(next_free, next_free + bucket.total_layers))
        next_free += bucket.total_layers
        stages = [s for s, n in sorted(bucket.by_stage.items()) for _ in range(n)]
        placed |= {at: (bucket.name, s) for at, s in zip(where, stages, strict=True)}
    return placed


def _layers(question: LayoutQuestion, layout: PageLayout) -> Iterator[str]:
    placed = Counter(
        (member.bucket, at)
        for group in layout.groups
        for member in group.members
        for at in member.layers
    )
    wanted = Counter((name, at) for at, (name, _) in _places(question).items())
    for name, at in (placed - wanted) + (wanted - placed):
        yield f"layer {at} of {name}: expected once, is there {placed[name, at]} times"
    yield from _prefix(question, layout)
    if question.max_groups is not None and len(layout.groups) > question.max_groups:
        yield f"groups: expected at most {question.max_groups}, are {len(layout.groups)}"


def _prefix(question: LayoutQuestion, layout: PageLayout) -> Iterator[str]:
    most = question.max_prefix_tokens
    spans = {
        group.block_tokens * (question.bucket(group.members[0].bucket).shards or 1)
        for group in layout.groups
        if group.block_tokens
    }
    if most is None or not spans:
        return
    if not any(all(prefix % span == 0 for span in spans) for prefix in range(1, most + 1)):
        yield f"block tokens {sorted(spans)}: no prefix of at most {most} tokens fills them all"


def _group(question: LayoutQuestion, layout: PageLayout, group: Group) -> Iterator[str]:
    buckets = {member.bucket: question.bucket(member.bucket) for member in group.members}
    name = "+".join(buckets)
    rules = {rule_of(b, full=group.held_full and b.hold_full) for b in buckets.values()}
    if len(rules) > 1:
        yield f"group {name}: expected one retention rule, are {len(rules)}"
    for member in group.members:
        bucket = buckets[member.bucket]
        own = page(bucket, group.block_tokens)
        if not _permits(bucket, group.block_tokens):
            yield f"{member.bucket}: block tokens {group.block_tokens} are not permitted"
        common = layout.page_bytes if group.pool == SHARED else None
        if member.page_bytes != (common or own):
            yield f"{member.bucket}: expected pages of {common or own} B, are {member.page_bytes} B"
        if own > member.page_bytes or (own < member.page_bytes and not bucket.pad):
            yield f"{member.bucket}: a page of {own} B does not go in {member.page_bytes} B"
    if group.pool != SHARED and not all(bucket.own_pool for bucket in buckets.values()):
        yield f"group {name}: a pool of its own is not permitted"


def _permits(bucket: Bucket, block_tokens: int) -> bool:
    if bucket.kind == "state":
        return block_tokens == 0
    start = bucket.tokens_per_block or 16
    if bucket.token_bytes is None:
        return block_tokens == start
    step = bucket.kernel_tokens if bucket.split else start
    return 0 < block_tokens <= bucket.max_tokens_per_block and block_tokens % step == 0


def _blocks(question: LayoutQuestion, layout: PageLayout) -> Iterator[str]:
    places = _places(question)
    for pool in layout.pools:
        for stage in question.stages:
            ends = [
                block_end(
                    member.page_bytes
                    for member in group.members
                    for at in member.layers
                    if places[at][1] == stage
                )
                for group in layout.groups
                if group.pool == pool.name
            ]
            said = pool.block_bytes[str(stage)]
            if said != max(ends):
                yield f"pool {pool.name}: expected a block of {max(ends)} B, is {said} B"


def _bytes(question: LayoutQuestion, layout: PageLayout, taken: Fraction) -> Iterator[str]:
    by_stage = dict.fromkeys(question.stages, Fraction(0))
    for group in layout.groups:
        bucket = question.bucket(group.members[0].bucket)
        full = group.held_full and bucket.hold_full
        blocks = workload_blocks(question, bucket, group.block_tokens, full=full)
        for stage in by_stage:
            by_stage[stage] += blocks * layout.pool(group.pool).block_bytes[str(stage)]
    if max(by_stage.values()) != taken:
        yield f"bytes: expected {max(by_stage.values())}, are {taken}"
