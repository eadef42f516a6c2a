"""Caches, pools and experts of a problem as integer rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.kernels.need import ceil_div
from kvplan.kernels.terms import (
    FLIGHT,
    FULL,
    LIVE,
    PEAK,
    PREFILL,
    STATE,
    CacheRule,
    ExpertTerms,
    PoolTerms,
)
from kvplan.models import Problem
from kvplan.models.pools import Cache


def cache_rule(problem: Problem, cache: Cache) -> CacheRule:
    """The rule of one cache; groups multiply, shards lengthen a block."""
    pool = next(i for i, p in enumerate(problem.pools) if p.name == problem.pool_of(cache))
    t = problem.block_tokens(cache)
    flight = PREFILL if cache.in_flight == "prefill" else cache.in_flight or 1
    common = CacheRule(pool, FULL, t, cache.groups, cache.extra_blocks, flight=flight)
    if cache.kind == "full":
        return common
    if cache.kind == "state":
        return common._replace(kind=STATE, state_blocks=cache.blocks or 1)
    per_batch = cache.in_flight_per == "batch"
    if cache.kind == "chunked":
        return common._replace(kind=FLIGHT, reach=cache.chunk or 1, flight_per_batch=per_batch)
    window = cache.window or 1
    if cache.retention == "in_flight":
        return common._replace(kind=FLIGHT, reach=window - 1, flight_per_batch=per_batch)
    common = common._replace(reach=window, sink_blocks=int(ceil_div(cache.sink or 0, t)))
    if cache.retention == "peak":
        return common._replace(kind=PEAK)
    scratch = cache.scratch
    if scratch is None:
        return common._replace(kind=LIVE)
    fraction = (scratch.fraction.numerator, scratch.fraction.denominator)
    return common._replace(kind=LIVE, scratch=fraction, rewind=scratch.max_rewind)


def structural_floors(caches: Sequence[CacheRule], pools: int) -> list[int]:
    """Usable blocks by pool that TensorRT-LLM V2 keeps whatever the batches.

    Only where a `live` window exists: per cache m (S + (W+t-2)//t + 1) for a live window, m times
    the largest such figure for `full`, m x blocks for `state`, m for the others
    (_storage_manager.py; not divided by the utilization).
    """
    floors = [0] * pools
    figures = [
        rule.sink_blocks + (rule.reach + rule.block_tokens - 2) // rule.block_tokens + 1
        if rule.kind == LIVE
        else 0
        for rule in caches
    ]
    widest = max(figures, default=0)
    if widest:
        others = {FULL: widest, PEAK: 1, FLIGHT: 1}
        for rule, figure in zip(caches, figures, strict=True):
            blocks = figure or others.get(rule.kind, rule.state_blocks)
            floors[rule.pool] += rule.groups * blocks
    return floors


def pool_terms(
    problem: Problem, caches: Sequence[CacheRule], held_floors: Mapping[str, int]
) -> tuple[PoolTerms, ...]:
    """Limits and utilization of every pool; `held_floors` are usable blocks by name."""
    structural = structural_floors(caches, len(problem.pools))
    use = problem.resume_utilization
    return tuple(
        PoolTerms(
            name=pool.name,
            reserved=pool.reserved_blocks,
            least=max(pool.min_blocks, floor, held_floors.get(pool.name, 0)),
            most=pool.max_blocks,
            multiple=pool.multiple_of,
            use_num=use.numerator if pool.resume_headroom else 1,
            use_den=use.denominator if pool.resume_headroom else 1,
        )
        for pool, floor in zip(problem.pools, structural, strict=True)
    )


def expert_terms(problem: Problem) -> ExpertTerms | None:
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
    return ExpertTerms(
        least=experts.min_slots,
        most=most,
        sizes=sizes,
        granule=experts.granule,
        keep=lend.keep if lend else 0,
        lend_num=lend.fraction.numerator if lend else 0,
        lend_den=lend.fraction.denominator if lend else 1,
    )
