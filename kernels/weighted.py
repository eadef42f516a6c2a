"""Weighted goals over several wide variables: every optimal world, exactly, within limits."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from kvplan.kernels import frontier
from kvplan.kernels.frontier import GaveUpError, Reached
from kvplan.kernels.instance import Objective, ObjectiveTerm
from kvplan.kernels.nested import Search
from kvplan.kernels.values import rises, term_value
from kvplan.kernels.worlds import Bounds


def optimal_worlds(nested: Search, worlds: list[Bounds], goal: Objective) -> Reached | None:
    """The least worlds that between them hold every optimum of a goal.

    None where a wide variable's worth may fall, the search itself is not exact, or nothing was
    found within the limit.
    """
    listed = [term for term in goal.members if _is_listed(term)]
    wide = [term for term in goal.members if term.weight and not _is_listed(term)]
    if not nested.is_exact or not all(map(rises, wide)):
        return None
    search = frontier.Frontier(nested)
    every = (start for world in worlds for start in _listed(nested, world, listed))
    starts = list(islice(every, frontier.MOST_STEPS + 1))
    if len(starts) > frontier.MOST_STEPS:  # each takes a step at least
        return None
    try:
        for chosen, base in starts:
            search.explore(chosen, base, wide)
    except GaveUpError:
        return search.so_far(len(starts))
    if search.best is None:
        return None
    least = _least(search.winners)
    if len(least) > frontier.MOST_WORLDS:
        return search.so_far(len(starts))
    return Reached(least, search.best, search.best, True)


def _is_listed(term: ObjectiveTerm) -> bool:
    """Choices, and a chunk whose worth may fall: every value is a world of its own."""
    kind = term.variable.kind
    return kind == "choice" or (kind == "prefill" and not rises(term))


def _listed(
    nested: Search, world: Bounds, listed: list[ObjectiveTerm]
) -> Iterator[tuple[Bounds, Fraction]]:
    """Every world that fixes the listed variables, and what they are worth there."""
    base = Fraction(0)
    chunk: ObjectiveTerm | None = None
    for term in listed:
        if term.variable.kind == "choice":
            base += term_value(term, -world.options[term.variable.position])
        else:
            chunk = term
    if chunk is None:
        yield world, base
        return
    for index in range(world.chunk, world.chunk_most + 1):
        worth = term_value(chunk, nested.instance.chunks[index])
        yield world._replace(chunk=index, chunk_most=index), base + worth


def _least(worlds: list[Bounds]) -> list[Bounds]:
    """Without the worlds that lie within another."""
    unique = list(dict.fromkeys(worlds))
    return [
        world
        for world in unique
        if not any(other != world and _holds(other, world) for other in unique)
    ]


def _holds(outer: Bounds, inner: Bounds) -> bool:
    """Whether the bounds of one world allow everything that the other's do."""
    same = outer.options == inner.options and outer.high == inner.high
    if not same or outer.chunk_most != inner.chunk_most:
        return False
    pairs = zip(_lows(outer), _lows(inner), strict=True)
    return all(a <= b for a, b in pairs)


def _lows(world: Bounds) -> tuple[int, ...]:
    return (*world.low, world.chunk, world.experts, *world.blocks, *world.copies)
