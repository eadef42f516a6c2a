"""Domains of the variables: how far each could go alone, by the nested search."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.nested import Nested
from kvplan.kernels.terms import Variable
from kvplan.kernels.values import Point

MARGIN_BLOCKS = 2


class Box(NamedTuple):
    """Inclusive upper bounds; lower bounds are the problem's own."""

    fitted: tuple[int, ...]  # tokens of a capacity, or count
    chunks: int  # candidates from the smallest
    experts: int
    usable: tuple[int, ...]  # blocks by pool


def box_of(nested: Nested, *, margin: bool) -> Box:
    """Solo maxima: every variable at its largest with all else at its least.

    Parameters
    ----------
    margin : leave a little more room than the search found (a period and two blocks of tokens,
        one chunk, one slot), so that CP-SAT must refute it by itself and a search that stops too
        early shows.
    """
    worlds = [world for world in nested.worlds() if nested.possible(world)]
    terms = nested.terms

    def solo(variable: Variable, extra: int, most: int | None) -> int:
        reached = [nested.largest(world, variable) for world in worlds]
        top = max(value for value in reached if value is not None) + (extra if margin else 0)
        return top if most is None else min(top, most)

    fitted = []
    for index, request in enumerate(terms.fitted):
        grid = nested.grids[index]
        widest = max((rule.block_tokens for rule in terms.caches), default=1)
        extra = 1 if grid is None else grid.period + MARGIN_BLOCKS * widest
        kind = "count" if request.is_count else "capacity"
        fitted.append(solo(Variable(kind, index), extra, request.most))
    chunk = solo(Variable("prefill"), 0, None)
    experts = terms.experts
    return Box(
        fitted=tuple(fitted),
        chunks=min(terms.chunks.index(chunk) + 1 + margin, len(terms.chunks)),
        experts=solo(Variable("experts"), 1, experts.most) if experts else 0,
        usable=tuple(
            solo(Variable("blocks", index), pool.multiple, pool.most)
            for index, pool in enumerate(terms.pools)
        ),
    )


def hint_in(box: Box, point: Point) -> Point:
    """The point itself; it lies in the box because the box holds every feasible point."""
    return point._replace(chunk=min(point.chunk, box.chunks - 1))
