"""Blocks that the pools need: requests in batches, batches against each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvplan.models.demands import Batch, Request
from kvplan.models.pools import Cache, Pool
from kvplan.models.problem import Problem
from kvplan.solver.oracle.blocks import (
    completed,
    flight_blocks,
    footprint,
    worst_window,
)


@dataclass(frozen=True)
class Load:
    """`count` alike requests of some size, in tokens."""

    capacity: int
    history: int
    count: int
    caches: tuple[str, ...] | None = None
    """Those that it uses; None: all."""

    def uses(self, cache: Cache) -> bool:
        """Whether it holds anything in a cache."""
        return self.caches is None or cache.name in self.caches


def asked(request: Request) -> Load:
    """What a request asks for; an open count as 1."""
    count = 1 if request.count is None else request.count
    return Load(request.capacity, request.history_tokens, count, request.caches)


def flight_tokens(problem: Problem, cache: Cache, chunk: int | None) -> int:
    """Tokens in flight that a cache counts on."""
    if cache.in_flight == "prefill":
        batches = problem.prefill.batches_in_flight if problem.prefill else 1
        return (chunk or 0) * batches
    return cache.in_flight or 1


def cache_blocks(
    problem: Problem, cache: Cache, prefix: int, loads: Iterable[Load], chunk: int | None
) -> int:
    """Blocks of one cache for one batch: own blocks, the shared prefix, a shared flight."""
    block_tokens = problem.block_tokens(cache)
    flight = flight_tokens(problem, cache, chunk)
    # Equal requests hold equal blocks: one simulation for all of them.
    alike: Counter[tuple[int, int]] = Counter()
    for load in loads:
        if load.uses(cache):
            alike[load.capacity, load.history] += load.count
    if cache.kind == "state":
        each = footprint(cache, block_tokens, 0, 0, flight, prefix).own
        return cache.groups * each * sum(alike.values())
    blocks, dead = 0, []
    for (capacity, history), count in alike.items():
        if capacity > 0 and count > 0:
            held = footprint(cache, block_tokens, capacity, history, flight, prefix)
            blocks += held.own * count
            dead.append(held.dead)
    if dead:
        blocks += prefix_blocks(completed(prefix, block_tokens), dead)
        blocks += flight_blocks(cache, block_tokens, flight)
    return cache.groups * blocks


def prefix_blocks(blocks: int, dead: Sequence[range]) -> int:
    """Blocks of a shared prefix that a request still needs: all but those dead for everyone."""
    first, last = max(gone.start for gone in dead), min(gone.stop for gone in dead)
    return blocks - max(0, min(last, blocks) - first)


def raw_needs(
    problem: Problem, batch: Batch, loads: Sequence[Load], chunk: int | None
) -> dict[str, int]:
    """Blocks by pool that one batch holds, before any headroom."""
    raw = {pool.name: 0 for pool in problem.pools}
    for cache in problem.caches:
        needed = cache_blocks(problem, cache, batch.shared_prefix, loads, chunk)
        raw[problem.pool_of(cache)] += needed
    return raw


def structural_floors(problem: Problem) -> dict[str, int]:
    """Blocks by pool without which some request could never run, where a window is kept live.

    A live window needs the blocks of its worst instant, a full cache as many as the widest of the
    windows, a state its blocks, anything else one block; each for every group.
    """
    floors = {pool.name: 0 for pool in problem.pools}
    live = [cache for cache in problem.caches if cache.retention == "live"]
    if not live:
        return floors
    worst = {cache.name: worst_window(cache, problem.block_tokens(cache)) for cache in live}
    for cache in problem.caches:
        least = {"live": worst.get(cache.name, 0), "full": max(worst.values())}
        least["state"] = cache.blocks or 1
        floors[problem.pool_of(cache)] += cache.groups * least.get(cache.retention, 1)
    return floors


def headroom(problem: Problem, pool: Pool) -> Fraction:
    """Share of a pool that may be in use when a request is admitted."""
    return problem.resume_utilization if pool.resume_headroom else Fraction(1)


def smallest_legal(pool: Pool, raw: Iterable[int], structural: int, utilization: Fraction) -> int:
    """Fewest usable blocks that serve every batch and obey min_blocks and multiple_of."""
    needed = max(raw, default=0)
    up, down = utilization.denominator, utilization.numerator

    def legal(usable: int) -> bool:
        # Both rules keep holding as the pool grows, so bisect for the first that obeys.
        return usable * down >= needed * up and usable >= max(structural, pool.min_blocks)

    below, enough = -1, 1  # in steps of multiple_of: `below` is illegal, `enough` is legal
    while not legal(enough * pool.multiple_of):
        below, enough = enough, 2 * enough
    while enough - below > 1:
        middle = (below + enough) // 2
        if legal(middle * pool.multiple_of):
            enough = middle
        else:
            below = middle
    return enough * pool.multiple_of


def blocks_in_use(usable: int, utilization: Fraction) -> int:
    """Whole blocks that may be in use when a request is admitted."""
    return math.floor(usable * utilization)


def copies_held(raw: dict[str, int], in_use: dict[str, int]) -> int:
    """Whole copies of a batch in the blocks that may be in use; 0 of one that needs no block."""
    whole = [in_use[name] // blocks for name, blocks in raw.items() if blocks > 0]
    return min(whole, default=0)


def mix_needs(problem: Problem, chunk: int | None) -> dict[str, Fraction]:
    """Blocks in use by pool that one copy of the fill mix holds: each request by itself."""
    found = {pool.name: Fraction(0) for pool in problem.pools}
    for entry in (problem.fill.mix if problem.fill else None) or ():
        load = Load(entry.capacity, entry.history_tokens, 1)
        for cache in problem.caches:
            held = cache_blocks(problem, cache, 0, [load], chunk)
            found[problem.pool_of(cache)] += entry.share * held
    return found


def running_of_mix(problem: Problem) -> Fraction:
    """Requests that one copy of the fill mix has run at once."""
    entries = (problem.fill.mix if problem.fill else None) or ()
    return sum([entry.share for entry in entries], Fraction(0))


def scale_held(
    problem: Problem, usable: Mapping[str, int], chunk: int | None, running: int | None
) -> Fraction | None:
    """How much of the fill mix usable blocks and running requests hold; None without a mix."""
    if problem.fill is None or problem.fill.mix is None:
        return None
    held = mix_needs(problem, chunk)
    ratios = [
        headroom(problem, pool) * usable[pool.name] / held[pool.name]
        for pool in problem.pools
        if held[pool.name]
    ]
    if running is not None and running_of_mix(problem):
        ratios.append(running / running_of_mix(problem))
    return min(ratios)
