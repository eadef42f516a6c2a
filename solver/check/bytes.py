"""Bytes on every rank in every phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from kvplan.models.elastic import Consumer, Experts, Option, Prefill
from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank, RankMemory, Share

Buffers = list[tuple[int, int]]
"""(block bytes, granule bytes) of each."""
Limit = tuple[str, int, list[list[int]], int | None, bool]
"""Phase, bytes of consumers, of the options by choice, limit where it is not the quota, staged."""


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


def limits_of(problem: Problem, rank: Rank) -> Iterator[Limit]:
    """Limit each phase by the quota; by free - connector too, where headroom is the staging."""
    memory, free = rank.memory, None
    if memory is not None and memory.prefill_headroom == "from_staging":
        free = _free_share(memory)
    for phase in problem.phases:
        fixed = sum([living(each, rank, phase) for each in problem.consumers])
        options = [[living(o, rank, phase) for o in each.options] for each in problem.choices]
        yield phase, fixed, options, None, phase == "prefill"
        if free is not None:
            yield phase, fixed, options, free, True


def living(thing: Consumer | Option, rank: Rank, phase: str) -> int:
    """Bytes of a consumer or option; a rank's own figure goes before its stage's."""
    if thing.phases is not None and phase not in thing.phases:
        return 0
    return on_rank(thing.bytes, rank)


def on_rank(figure: int | Mapping[str, int], rank: Rank) -> int:
    """Read a figure that may be given by stage or by rank name, or left out for a rank."""
    if isinstance(figure, int):
        return figure
    return figure.get(rank.name, figure.get(str(rank.stage), 0))


def at_stage(figure: int | Mapping[str, int], stage: int) -> int:
    """Read a figure that may be given by stage."""
    return figure if isinstance(figure, int) else figure[str(stage)]


def auto_granule(quota: int) -> int:
    """2 MiB below 2 GiB, doubled at 2, 4, 8 and 16 GiB."""
    return 2 * 2**20 << sum([quota >= step * 2**30 for step in (2, 4, 8, 16)])


def layout_of(problem: Problem, rank: Rank, auto: int) -> list[Buffers]:
    """Buffers of every pool on a rank, where an "auto" granule is `auto` bytes."""
    return [
        [(on_rank(b.bytes, rank), auto if b.granule == "auto" else b.granule) for b in pool.layout]
        for pool in problem.pools
    ]


def pools_bytes(layout: Sequence[Buffers], blocks: Sequence[int]) -> list[int]:
    """By pool: sum over its buffers of ceil(n x bytes / granule) x granule."""
    return [
        sum([-(-n * size // granule) * granule for size, granule in buffers])
        for buffers, n in zip(layout, blocks, strict=True)
    ]


def slots_bytes(experts: Experts | None, stage: int, slots: int | None) -> int:
    """ceil(layers x bytes of the first slots / granule) x granule: all layers in one allocation."""
    if experts is None or not slots:
        return 0
    taken, left, sizes = 0, slots, experts.slot_bytes
    for count, size in ((slots, sizes),) if isinstance(sizes, int) else sizes:
        taken += min(count, left) * size
        left -= min(count, left)
    return -(-taken * at_stage(experts.layers, stage) // experts.granule) * experts.granule


def staging_bytes(prefill: Prefill | None, stage: int, chunk: int | None) -> int:
    """Sum of the entries, of a group the largest: ceil(base + per_token x chunk), or the first row.

    A row of a table counts from where its tokens reach the chunk; each entry fills whole granules.
    """
    groups = dict[str | int, int]()
    tokens = chunk or 0
    for index, entry in enumerate(prefill.staging if prefill else ()):
        if entry.stage is None or entry.stage == stage:
            exact = (entry.base or 0) + (entry.per_token or 0) * tokens
            exact = next((size for most, size in entry.table or () if most >= tokens), exact)
            key = index if entry.group is None else entry.group
            groups[key] = max(-(-exact // entry.granule) * entry.granule, groups.get(key, 0))
    return sum(groups.values())
