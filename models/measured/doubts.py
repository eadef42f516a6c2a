"""Readings that are legal but suspicious: reported with the reason, never clamped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kvplan.models.ranks import Rank, RankMemory
from kvplan.models.units import exact_bytes

MOST_OUTSIDE = Fraction(1, 10)
"""Share of total outside the allocator: healthy servers show 0.5 to 5.4 % (MI308X, MI355X),
reported faults 10.5 to 79 % (ROCm/ATOM #1495, #1935, #2019)."""
MOST_UNNAMED = Fraction(1, 50)
"""Share of total in use that no term covers: as much as a 2 % margin could absorb."""
MOST_GRAPHS = Fraction(15, 100)
"""Share of the utilization budget at which ROCm/ATOM cuts its list of graphs short."""
MOST_SPREAD = Fraction(1, 50)
"""Share of total by which a rank may lie below the median: 25 of 25 logs in ROCm/ATOM #3171 show
0.57 to 1.51 % of the count."""


def doubts_of(memory: RankMemory) -> tuple[str, ...]:
    """One line for each reading that is legal but suspicious."""
    return tuple(_doubts(memory))


def _doubts(memory: RankMemory) -> Iterator[str]:
    total = memory.total
    if total is None:
        return
    if memory.non_torch > MOST_OUTSIDE * total:
        yield (
            f"non_torch {exact_bytes(memory.non_torch)} is {_percent(memory.non_torch, total)} of "
            "total: a neighbour on the card, memory not yet returned after loading, or a set of "
            "communicators for each parallel dimension"
        )
    yield from _against_free(memory, total)
    if memory.peak_torch == 0 and "peak_torch" in memory.model_fields_set:
        yield "peak_torch is 0: read before the weights were loaded, or after the peak was reset"
    if memory.utilization is not None:
        budget = memory.utilization * total
        graphs = memory.graphs_bytes
        if isinstance(memory.graphs, int) and graphs > MOST_GRAPHS * budget:
            share = _percent(graphs, budget)
            yield f"graphs {exact_bytes(graphs)} is {share} of the utilization budget"


def _against_free(memory: RankMemory, total: int) -> Iterator[str]:
    """Terms against what the device has in use: total - free."""
    if memory.free is None:
        return
    in_use = total - memory.free
    unnamed = in_use - memory.peak_torch - memory.non_torch
    if memory.non_torch > in_use:
        yield (
            f"non_torch {exact_bytes(memory.non_torch)} is above the {exact_bytes(in_use)} that "
            "the device has in use: readings of different moments"
        )
    elif memory.utilization is not None and unnamed > MOST_UNNAMED * total:
        yield (
            f"{exact_bytes(unnamed)} in use on the device are in neither peak_torch nor "
            "non_torch, so the utilization share does not charge them"
        )


def spread_doubts(ranks: Sequence[Rank]) -> tuple[str, ...]:
    """Name each measured rank whose quota lies far below the median of its stage."""
    return tuple(
        line for stage in sorted({rank.stage for rank in ranks}) for line in _spread(ranks, stage)
    )


def _spread(ranks: Sequence[Rank], stage: int) -> Iterator[str]:
    alike = [r for r in ranks if r.stage == stage and r.memory is not None and r.memory.total]
    if len(alike) < 2:
        return
    median = sorted(rank.quota_bytes for rank in alike)[len(alike) // 2]
    for rank in alike:
        assert rank.memory is not None
        below = median - rank.quota_bytes
        if below > MOST_SPREAD * (rank.memory.total or 0):
            yield (
                f"rank {rank.name}: {exact_bytes(below)} below the median of stage {stage}, "
                "and one count holds for all"
            )


def _percent(part: int, whole: int | Fraction) -> str:
    tenths = int(1000 * Fraction(part) / whole)
    return f"{tenths // 10}.{tenths % 10} %"
