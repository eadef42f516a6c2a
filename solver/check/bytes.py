"""Bytes on every rank in every phase, and the limits that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvplan.models.elastic import Consumer, Experts, Option, Prefill, Staging
from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank

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
        free = rank.memory.physical_share
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
