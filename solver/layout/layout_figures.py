"""What a layout comes to: bytes, blocks, waste by bucket, tokens at the quota."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from kvplan.kernels.pages import copies_held, workload_blocks
from kvplan.models.layouts import LayoutQuestion, PageLayout
from kvplan.models.layouts.chosen import LayoutFigures
from kvplan.models.layouts.page_layout import SHARED, Group
from kvplan.solver.layout.bucket_figures import Weighed, bucket_figures
from kvplan.solver.layout.kinds import retained, rule_at, weights_of

Workload = Sequence[tuple[int, int]]
ENTRY_BYTES, SLOT_BYTES = 4, 8
"""A block id (int32) and a slot of the mapping (int64), as vLLM's BlockTable has them."""


def figures_of(question: LayoutQuestion, layout: PageLayout) -> LayoutFigures:
    """Evaluate a layout: one that was found, an engine's, or one written by hand."""
    workload, scale = weights_of(question)
    alone = ((question.longest.capacity, 1),)
    whole, one = weigh(question, layout, workload), weigh(question, layout, alone)
    stage = whole.fullest
    buckets = bucket_figures(question, layout, whole, one)
    taken = Fraction(whole.bytes_by_stage[stage], scale)
    pools = {pool.name: pool for pool in layout.pools}
    shared = pools[SHARED].block_bytes[str(stage)] if SHARED in pools else 0
    concurrency = _concurrency(question, layout, one)
    return LayoutFigures(
        bytes=taken,
        request_bytes=max(one.bytes_by_stage.values()),
        blocks=sum(one.blocks),
        groups=len(layout.groups),
        block_bytes=shared,
        page_bytes=layout.page_bytes,
        padded_layers=sum(each.padded_layers for each in buckets),
        waste_bytes=sum((each.waste_bytes for each in buckets), Fraction(0)),
        table_bytes=sum(ENTRY_BYTES * table_entries(question, group) for group in layout.groups),
        slot_bytes=SLOT_BYTES * sum(group.block_tokens > 0 for group in layout.groups),
        prefix_tokens=prefix_tokens(question, layout),
        tokens=None if concurrency is None else int(concurrency * question.longest.capacity),
        concurrency=concurrency,
        copies=_copies(question, layout, whole) if scale == 1 else None,
        buckets=buckets,
    )


def weigh(question: LayoutQuestion, layout: PageLayout, workload: Workload) -> Weighed:
    """Blocks of each group, and bytes on each stage: sum over pools of block bytes x blocks."""
    blocks = tuple(group_blocks(question, group, workload) for group in layout.groups)
    taken = dict.fromkeys(question.stages, 0)
    for pool in layout.pools:
        mine = sum(
            count
            for group, count in zip(layout.groups, blocks, strict=True)
            if group.pool == pool.name
        )
        for stage in question.stages:
            taken[stage] += pool.block_bytes[str(stage)] * mine
    return Weighed(blocks, taken)


def group_blocks(question: LayoutQuestion, group: Group, workload: Workload) -> int:
    """Weighted blocks of one group; all its buckets need the same."""
    bucket = question.bucket(group.members[0].bucket)
    rule = rule_at(retained(bucket, held_full=group.held_full), group.block_tokens or 1)
    return int(workload_blocks(rule, workload))


def table_entries(question: LayoutQuestion, group: Group) -> int:
    """Entries of one group's block table for the longest request.

    A table is indexed by position, so that windows have ceil(L / block) entries, too; a state has
    its blocks (max_num_blocks_per_req, vllm/v1/kv_cache_interface.py).
    """
    capacity = question.longest.capacity
    if not group.block_tokens:
        return group_blocks(question, group, ((capacity, 1),))
    bucket = question.bucket(group.members[0].bucket)
    return -(-capacity // (group.block_tokens * (bucket.shards or 1)))


def prefix_tokens(question: LayoutQuestion, layout: PageLayout) -> int:
    """Tokens that a cached prefix is a multiple of: lcm of the block tokens over all shards.

    Every group must find the prefix in whole blocks (vLLM, HybridKVCacheCoordinator); states are
    kept at the same boundaries. 0 without a group that holds tokens.
    """
    spans = [
        group.block_tokens * (question.bucket(group.members[0].bucket).shards or 1)
        for group in layout.groups
        if group.block_tokens
    ]
    return lcm(*spans) if spans else 0


def _concurrency(question: LayoutQuestion, layout: PageLayout, one: Weighed) -> Fraction | None:
    """Longest requests that fit at once: blocks over blocks of one; bytes where pools are several.

    blocks = min over stages of quota // block bytes, the reserved ones included (as vLLM prints).
    """
    if not question.ranks:
        return None
    quotas = {stage: question.quota_of(stage) or 0 for stage in question.stages}
    if len(layout.pools) > 1:
        return min(Fraction(quota, one.bytes_by_stage[s] or 1) for s, quota in quotas.items())
    sizes = layout.pools[0].block_bytes
    blocks = min(quota // sizes[str(s)] for s, quota in quotas.items() if sizes[str(s)])
    return Fraction(blocks, sum(one.blocks))


def _copies(question: LayoutQuestion, layout: PageLayout, whole: Weighed) -> int | None:
    """Whole workloads within the quotas of every stage."""
    if not question.ranks:
        return None
    shared = sum(
        count
        for group, count in zip(layout.groups, whole.blocks, strict=True)
        if group.pool == SHARED
    )
    found = []
    for stage in question.stages:
        sizes = {pool.name: pool.block_bytes[str(stage)] for pool in layout.pools}
        block = sizes.get(SHARED, 0)
        own = whole.bytes_by_stage[stage] - block * shared
        quota = question.quota_of(stage) or 0
        reserved = next((p.reserved_blocks for p in layout.pools if p.name == SHARED), 0)
        if block * shared + own:
            found.append(int(copies_held(quota, block, reserved, shared, own)))
    return max(0, min(found))
