"""What a nested search has decided, and the least that the decided still demands."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.values import Point


class Bounds(NamedTuple):
    """Decisions so far; by position of fitted request, pool, choice, batch."""

    low: tuple[int, ...]  # fitted capacity (tokens) or count, at least
    high: tuple[int | None, ...]  # at most; None: bounded by the quota
    chunk: int  # index, at least
    chunk_most: int
    options: tuple[int, ...]
    experts: int  # slots, at least
    blocks: tuple[int, ...]  # usable, at least
    copies: tuple[int, ...]  # of each batch, at least


class LeastDemand(NamedTuple):
    """A least demand of a world: the free capacities at one of their low points."""

    capacities: tuple[int, ...]  # tokens by fitted request
    counts: tuple[int, ...]
    usable: tuple[int, ...]  # blocks by pool, or beyond a pool's max_blocks
    experts: int  # slots


def point_at(world: Bounds, corner: LeastDemand, kept: int) -> Point:
    """The decisions of a least demand; `kept` expert slots stay during prefill."""
    return Point(
        capacities=corner.capacities,
        counts=corner.counts,
        chunk=world.chunk,
        options=world.options,
        experts=corner.experts,
        kept=kept,
        usable=corner.usable,
    )


def put(values: tuple[int | None, ...], index: int, value: int) -> tuple[int, ...]:
    """A tuple with one value replaced."""
    return (*values[:index], value, *values[index + 1 :])  # type: ignore[arg-type]


def pareto(needs: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Points whose needs no other point's needs undercut; of equal needs the smallest point."""
    first: dict[tuple[int, ...], int] = {}
    for point in sorted(needs):
        first.setdefault(needs[point], point)
    return tuple(
        point
        for need, point in first.items()
        if not any(
            other != need and all(a <= b for a, b in zip(other, need, strict=True))
            for other in first
        )
    )
