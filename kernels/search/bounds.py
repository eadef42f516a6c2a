"""The decisions of a search so far, and the least that is still demanded."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvplan.kernels.values import Point


class Bounds(NamedTuple):
    """The decisions so far, by position of variable request, pool, choice and batch."""

    low: tuple[int, ...]  # capacity (tokens) or count, at least
    high: tuple[int | None, ...]  # at most; None: bounded by the quota
    chunk: int  # index, at least
    chunk_most: int
    options: tuple[int, ...]
    experts: int  # slots, at least
    blocks: tuple[int, ...]  # usable, at least
    copies: tuple[int, ...]  # of each batch, at least
    scale: Fraction | int = 0  # copies of the mix, at least


class LeastDemand(NamedTuple):
    """A least demand within bounds: open capacities stand where their needs are least."""

    capacities: tuple[int, ...]  # tokens by variable request
    counts: tuple[int, ...]
    usable: tuple[int, ...]  # blocks by pool, perhaps beyond a pool's max_blocks; contexts last


def point_at(bounds: Bounds, demand: LeastDemand, kept: int) -> Point:
    """The decisions of a least demand; `kept` expert slots stay during prefill."""
    return Point(
        capacities=demand.capacities,
        counts=demand.counts,
        chunk=bounds.chunk,
        options=bounds.options,
        experts=bounds.experts,
        kept=kept,
        usable=demand.usable[: len(bounds.blocks)],
    )


def put(values: tuple[int | None, ...], index: int, value: int) -> tuple[int, ...]:
    """A tuple with one value replaced."""
    return (*values[:index], value, *values[index + 1 :])  # type: ignore[arg-type]
