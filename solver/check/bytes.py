"""Bytes on every rank in every phase, and the limits that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.elastic import Consumer, Experts, Option, Prefill, Staging
from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank, RankMemory, Share

GIB = 2**30
Layout = list[list[tuple[int, int]]]
"""(block bytes, granule bytes) of every buffer, by pool."""


class Limit(NamedTuple):
    """Bytes of a rank in one phase, beside pools, experts and staging."""

    phase: str
    fixed: int  # consumers
    options: list[list[int]]  # by choice
    staged: bool
    physical: int | None  # the limit where it is not the quota: what is free, less the connector


def quota_of(rank: Rank) -> int:
    """The quota: as declared, or the smaller of what a utilization and what is free leave."""
    memory = rank.memory
    if memory is None:
        return rank.quota or 0
    free = _free_share(memory)
    if memory.utilization is None:
        return free or 0
    shared = _utilization_share(memory, memory.utilization)
    return shared if free is None else min(shared, free)


def _free_share(memory: RankMemory) -> int | None:
    """What is free, less the connector and a headroom that is not the staging."""
    if memory.free is None:
        return None
    return memory.free - memory.connector - _term_bytes(memory.prefill_headroom, memory.total or 0)


def _utilization_share(memory: RankMemory, utilization: Fraction) -> int:
    """A share of total (of free without one) less all terms; graphs may be a share of the rest."""
    whole = memory.free if memory.total is None else memory.total
    left = (whole or 0) * utilization.numerator // utilization.denominator
    left -= memory.peak_torch + memory.non_torch + memory.connector
    left -= _term_bytes(memory.safety, memory.total or 0) + sum(memory.other.values())
    return left - _term_bytes(memory.graphs, max(0, left))


def _term_bytes(term: int | Share | str, whole: int) -> int:
    """Bytes, or a share of a whole, rounded up; a word is charged elsewhere."""
    if isinstance(term, Share):
        return -(-term.fraction.numerator * whole // term.fraction.denominator)
    return 0 if isinstance(term, str) else term


def limits_of(problem: Problem, rank: Rank) -> list[Limit]:
    """Every limit of a rank.

    A prefill headroom that is the modelled staging is charged to what is free in every phase.
    """

    def limit(phase: str, staged: bool, physical: int | None = None) -> Limit:
        fixed = sum([_living(each, rank, phase) for each in problem.consumers])
        options = [[_living(o, rank, phase) for o in each.options] for each in problem.choices]
        return Limit(phase, fixed, options, staged, physical)

    limits = [limit(phase, phase == "prefill") for phase in problem.phases]
    if rank.memory is not None and rank.memory.prefill_headroom == "from_staging":
        free = _free_share(rank.memory)
        if free is not None:
            limits += [limit(phase, True, free) for phase in problem.phases]
    return limits


def _living(thing: Consumer | Option, rank: Rank, phase: str) -> int:
    """Bytes of a consumer or option; a rank's own figure goes before its stage's."""
    if thing.phases is not None and phase not in thing.phases:
        return 0
    if isinstance(thing.bytes, int):
        return thing.bytes
    return thing.bytes.get(rank.name, thing.bytes.get(str(rank.stage), 0))


def on_stage(figure: int | Mapping[str, int], stage: int) -> int:
    """A figure by stage."""
    return figure if isinstance(figure, int) else figure[str(stage)]


def auto_granule(quota: int) -> int:
    """2 MiB below 2 GiB, doubled at 2, 4, 8 and 16 GiB."""
    return 2 * 2**20 << sum([quota >= step * GIB for step in (2, 4, 8, 16)])


def layout_of(problem: Problem, stage: int, auto: int) -> Layout:
    """Buffers of every pool on a stage, where an "auto" granule is `auto`."""
    return [
        [
            (on_stage(each.bytes, stage), auto if each.granule == "auto" else each.granule)
            for each in pool.layout
        ]
        for pool in problem.pools
    ]


def pools_bytes(layout: Layout, blocks: Sequence[int]) -> list[int]:
    """Bytes by pool: each buffer is an allocation, rounded up to its granule."""
    found = []
    for buffers, allocated in zip(layout, blocks, strict=True):
        taken = 0
        for size, granule in buffers:
            taken += -(-allocated * size // granule) * granule
        found.append(taken)
    return found


def slots_bytes(experts: Experts | None, stage: int, slots: int | None) -> int:
    """Bytes of the first slots of all layers on a stage, one allocation."""
    if experts is None or not slots:
        return 0
    taken, left, sizes = 0, slots, experts.slot_bytes
    for count, size in ((slots, sizes),) if isinstance(sizes, int) else sizes:
        taken += min(count, left) * size
        left -= min(count, left)
    return -(-taken * on_stage(experts.layers, stage) // experts.granule) * experts.granule


def staging_bytes(prefill: Prefill | None, stage: int, chunk: int | None) -> int:
    """Bytes of a prefill of one chunk: entries add up, of a group the largest alone."""
    if prefill is None or chunk is None:
        return 0
    alone, groups = 0, dict[str, int]()
    for entry in prefill.staging:
        if entry.stage is None or entry.stage == stage:
            taken = _entry_bytes(entry, chunk)
            if entry.group is None:
                alone += taken
            else:
                groups[entry.group] = max(taken, groups.get(entry.group, 0))
    return alone + sum(groups.values())


def _entry_bytes(entry: Staging, chunk: int) -> int:
    """base + per_token x chunk, exact until it is rounded up, or the first row that reaches it."""
    if entry.table is None:
        exact = (entry.per_token or 0) * chunk
        taken = (entry.base or 0) - int(-exact // 1)
    else:
        taken = next(size for tokens, size in entry.table if tokens >= chunk)
    return -(-taken // entry.granule) * entry.granule
