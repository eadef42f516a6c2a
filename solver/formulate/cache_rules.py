"""Caches, pools and experts of a problem as integer rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.kernels.instance import (
    FLIGHT,
    FULL,
    LIVE,
    PEAK,
    PREFILL,
    STATE,
    CacheRule,
    ExpertRule,
    PoolRule,
    made,
)
from kvplan.models import Problem
from kvplan.models.pools import Cache, Pool
from kvplan.models.ranks import at_rank


def cache_rules(problem: Problem) -> tuple[CacheRule, ...]:
    """The rules of all caches, in order."""
    places: dict[str | None, int] = {pool.name: index for index, pool in enumerate(problem.pools)}
    places[None] = 0
    return tuple(
        [
            cache_rule(cache, problem.block_tokens(cache), places[cache.pool])
            for cache in problem.caches
        ]
    )


def cache_rule(cache: Cache, block_tokens: Any, pool: int = 0) -> CacheRule:
    """The rule of one cache; groups multiply.

    Parameters
    ----------
    block_tokens : t, over all shards; an integer, or an array of them where layouts are compared.
    """
    t, groups, extra = block_tokens, cache.groups, cache.extra_blocks
    kind = _KINDS[cache.kind] if cache.kind != "window" else _KEPT[cache.keep]
    if kind == FULL:
        return CacheRule(pool, kind, t, groups, extra)
    if kind == STATE:
        return CacheRule(pool, kind, t, groups, extra, state_blocks=cache.blocks or 1)
    reach, flight, scratch = cache.window or 1, cache.in_flight, cache.scratch
    if kind == FLIGHT:
        reach = cache.chunk or reach - 1
    sink = -(-cache.sink // t) if cache.sink and kind != FLIGHT else 0
    tokens = 1 if flight is None else PREFILL if flight == "prefill" else flight
    together, share, rewind = kind == FLIGHT and cache.in_flight_per == "batch", None, 0
    if scratch is not None:
        share, rewind = scratch.fraction.as_integer_ratio(), scratch.max_rewind
    fields = (pool, kind, t, groups, extra, reach, sink, tokens, together, 0, share, rewind)
    return made(CacheRule, fields)


_KINDS = {"full": FULL, "state": STATE, "chunked": FLIGHT}
_KEPT = {None: PEAK, "peak": PEAK, "live": LIVE, "in_flight": FLIGHT}


def structural_floors(caches: Sequence[CacheRule], pools: int) -> list[int]:
    """Usable blocks by pool that TensorRT-LLM V2 keeps whatever the batches.

    Only where a `live` window exists: per cache m (S + (W+t-2)//t + 1) for a live window, m times
    the largest such figure for `full`, m x blocks for `state`, m for the others
    (_storage_manager.py; not divided by the utilization).
    """
    floors = [0] * pools
    if not any(rule.kind == LIVE for rule in caches):
        return floors
    figures = [
        rule.sink_blocks + (rule.reach + rule.block_tokens - 2) // rule.block_tokens + 1
        if rule.kind == LIVE
        else 0
        for rule in caches
    ]
    others = {FULL: max(figures), PEAK: 1, FLIGHT: 1}
    for rule, figure in zip(caches, figures, strict=True):
        blocks = figure or others.get(rule.kind, rule.state_blocks)
        floors[rule.pool] += rule.groups * blocks
    return floors


def pool_rules(
    problem: Problem, caches: Sequence[CacheRule], held_floors: Mapping[str, int]
) -> tuple[PoolRule, ...]:
    """Limits and utilization of every pool; `held_floors` are usable blocks by name."""
    structural = structural_floors(caches, len(problem.pools))
    use = problem.resume_utilization.as_integer_ratio()
    found = []
    for pool, least in zip(problem.pools, structural, strict=True):
        if held_floors:
            least = max(least, held_floors.get(pool.name, 0))
        if least < pool.min_blocks:
            least = pool.min_blocks
        share = use if pool.resume_headroom else (1, 1)
        most = most_usable(problem, pool) if pool.figures.limited else pool.max_blocks
        rule = (pool.name, pool.reserved_blocks, least, most, pool.multiple_of, *share)
        found.append(made(PoolRule, rule))
    return tuple(found)


def most_usable(problem: Problem, pool: Pool) -> int | None:
    """max_blocks, or the fewest blocks that max_bytes of a buffer allow on some rank."""
    tops = [] if pool.max_blocks is None else [pool.max_blocks]
    for buffer in pool.layout if pool.figures.limited else ():
        block = max(at_rank(buffer.bytes, rank) for rank in problem.ranks)
        if buffer.max_bytes is not None and block:
            tops.append(buffer.most_blocks(block) - pool.reserved_blocks)
    return min(tops, default=None)


RUNNING = PoolRule("running requests", 0, 0, None, 1, 1, 1)
"""The pool of requests that run: bytes of each, by rank and phase, are those of its block."""


def running_rule(pool: int) -> CacheRule:
    """A state of one block that every request holds, those without tokens, too."""
    return CacheRule(pool, STATE, state_blocks=1)


def expert_rule(problem: Problem) -> ExpertRule | None:
    """The expert slots of a problem in integers; None without an experts section."""
    experts = problem.experts
    if experts is None:
        return None
    sized = isinstance(experts.slot_bytes, tuple)
    sizes = (
        experts.slot_bytes if isinstance(experts.slot_bytes, tuple) else ((1, experts.slot_bytes),)
    )
    most = experts.max_slots
    if sized and most is None:
        most = sum(slots for slots, _ in sizes)
    lend = experts.lend
    return ExpertRule(
        least=experts.min_slots,
        most=most,
        sizes=sizes,
        granule=experts.granule,
        keep=lend.keep if lend else 0,
        lend_num=lend.fraction.numerator if lend else 0,
        lend_den=lend.fraction.denominator if lend else 1,
    )
