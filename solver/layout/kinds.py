"""Buckets as integers: pages and blocks at every block size that is permitted."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from kvplan.kernels.instance import CacheRule
from kvplan.kernels.pages import page_bytes, workload_blocks
from kvplan.models.layouts import Bucket, LayoutQuestion
from kvplan.models.pools import Cache
from kvplan.solver.formulate.cache_rules import cache_rule

Array = Any
"""An integer array: int64 where every product stays below 2^62, else Python integers."""
EXACT_BELOW = 2**62


class Kind(NamedTuple):
    """One bucket.

    Attributes
    ----------
    place : of the bucket in the question.
    layers : by stage, in the question's order of stages.
    tokens : block tokens of one shard that are permitted, ascending; [0] for a state.
    shards : that a block's tokens are spread over.
    pages, blocks : at each of them, bytes of a layer's page and weighted blocks of the workload.
    family : retention rule; only buckets of one family can share a group.
    """

    place: int
    layers: tuple[int, ...]
    tokens: Array
    pages: Array
    blocks: Array
    family: tuple[object, ...]
    pad: bool
    shards: int = 1

    def only(self, kept: Array) -> Kind:
        """Permit some of the block tokens."""
        tokens, pages, blocks = self.tokens[kept], self.pages[kept], self.blocks[kept]
        return self._replace(tokens=tokens, pages=pages, blocks=blocks)

    @property
    def total_layers(self) -> int:
        """Layers of all stages."""
        return sum(self.layers)


def weights_of(question: LayoutQuestion) -> tuple[tuple[tuple[int, int], ...], int]:
    """(capacity, weight) of the workload in whole numbers, and what they were multiplied by."""
    scale = lcm(*(request.weight.denominator for request in question.requests))
    rows = ((request.capacity, request.weight * scale) for request in question.requests)
    return tuple((capacity, int(weight)) for capacity, weight in rows), scale


def kinds_of(question: LayoutQuestion, *, held_full: bool = False) -> tuple[Kind, ...]:
    """The buckets of a question in integers.

    Parameters
    ----------
    held_full : hold windows and chunks in full where that is permitted.
    """
    workload, _ = weights_of(question)
    rows = [retained(bucket, held_full=held_full) for bucket in question.buckets]
    found = []
    for index, (bucket, cache) in enumerate(zip(question.buckets, rows, strict=True)):
        tokens = permitted_tokens(bucket)
        blocks = workload_blocks(rule_at(cache, tokens), workload) + 0 * tokens
        rate = bucket.token_bytes or 0
        pages = page_bytes(tokens, rate.numerator, rate.denominator, bucket.state_bytes or 0)
        layers = tuple(bucket.by_stage.get(stage, 0) for stage in question.stages)
        family, shards = family_of(cache), cache.shards or 1
        found.append(Kind(index, layers, tokens, pages, blocks, family, bucket.pad, shards))
    return tuple(found)


def retained(bucket: Bucket, *, held_full: bool) -> Cache:
    """The retention rule of a bucket: its own, or full attention's where it is held so."""
    fields = ("kind", "extra_blocks", "window", "sink", "keep", "chunk", "blocks", "in_flight")
    given = {name: getattr(bucket, name) for name in fields}
    given = {name: value for name, value in given.items() if value not in (None, 0)}
    if held_full and bucket.hold_full:
        given = {"kind": "full"}
    if bucket.shards is not None:
        given["shards"] = bucket.shards
    return Cache.model_validate({"name": bucket.name, **given})


def rule_at(cache: Cache, block_tokens: Array) -> CacheRule:
    """The kernels' rule at block tokens of one shard, an integer or an array."""
    return cache_rule(cache, block_tokens * (cache.shards or 1))


def permitted_tokens(bucket: Bucket) -> Array:
    """Block tokens of one shard that a bucket may have, ascending.

    A state has none. Where the page may split, multiples of kernel_tokens; else of the engine's
    block. A page of fixed bytes (a state kept every so many tokens) keeps the engine's block.
    """
    if bucket.kind == "state":
        return np.zeros(1, dtype=object)
    if bucket.token_bytes is None:
        return np.array([bucket.block_tokens], dtype=object)
    step = bucket.kernel_tokens if bucket.split else bucket.block_tokens
    return np.arange(step, bucket.max_tokens_per_block + 1, step).astype(object)


def family_of(cache: Cache) -> tuple[object, ...]:
    """What two buckets must have in common to need the same blocks at the same block tokens."""
    return (cache.retention, *rule_at(cache, 1), cache.sink or 0)


def compact(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Use 64-bit arrays where no product of the search can reach 2^62.

    bytes <= largest page x layers of a stage x sum of layers x blocks.
    """
    page = max(int(kind.pages.max()) for kind in kinds)
    width = sum(kind.total_layers for kind in kinds)
    blocks = sum(kind.total_layers * int(kind.blocks.max()) for kind in kinds)
    if page * width * blocks * (width + 1) >= EXACT_BELOW:
        return tuple(kinds)
    return tuple(
        kind._replace(
            tokens=kind.tokens.astype(np.int64),
            pages=kind.pages.astype(np.int64),
            blocks=kind.blocks.astype(np.int64),
        )
        for kind in kinds
    )
