"""Caches, pools and experts of a problem as integer rules."""

from __future__ import annotations

from collections.abc import Mapping

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
from kvplan.models.pools import Cache, Pool


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


def structural_floors(problem: Problem) -> dict[str, int]:
    """Usable blocks by pool that TensorRT-LLM V2 keeps whatever the batches.

    Only where a `live` window exists: per cache m (S + (W+t-2)//t + 1) for a live window, m times
    the largest such figure for `full`, m x blocks for `state`, m for the others
    (_storage_manager.py; not divided by the utilization).
    """
    floors = {pool.name: 0 for pool in problem.pools}
    figures = {}
    for cache in problem.caches:
        if cache.retention == "live":
            t = problem.block_tokens(cache)
            sink_blocks = int(ceil_div(cache.sink or 0, t))
            figures[cache.name] = sink_blocks + ((cache.window or 1) + t - 2) // t + 1
    if not figures:
        return floors
    widest = max(figures.values())
    for cache in problem.caches:
        per_kind = {"full": widest, "state": cache.blocks or 1}.get(cache.kind, 1)
        floors[problem.pool_of(cache)] += cache.groups * figures.get(cache.name, per_kind)
    return floors


def pool_terms(problem: Problem, held_floors: Mapping[str, int]) -> tuple[PoolTerms, ...]:
    structural = structural_floors(problem)
    use = problem.resume_utilization

    def terms(pool: Pool) -> PoolTerms:
        least = max(pool.min_blocks, structural[pool.name], held_floors.get(pool.name, 0))
        return PoolTerms(
            name=pool.name,
            reserved=pool.reserved_blocks,
            least=least,
            most=pool.max_blocks,
            multiple=pool.multiple_of,
            use_num=use.numerator if pool.resume_headroom else 1,
            use_den=use.denominator if pool.resume_headroom else 1,
        )

    return tuple(map(terms, problem.pools))


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
