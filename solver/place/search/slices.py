"""The search: the cheapest path over spaces, its slices made exact until it stays the cheapest.

A proof where experts lie with their layer or on the host, and the host has room; elsewhere a start
for CP-SAT.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from kvplan.solver.place.search.over_cards import best_over_cards
from kvplan.solver.place.search.slice_path import Path
from kvplan.solver.place.search.spread import Spread, Spreading, measure, short_by

MOST_ROUNDS = 2_000


class Found(NamedTuple):
    """An answer and whether the path proves it; no answer may be a proof, too."""

    answer: Spreading | None
    is_proof: bool


def shortest(spread: Spread) -> Found:
    """The cheapest path that fits; where the host is short, the one that asks least of it."""
    over_cards = best_over_cards(spread)
    if over_cards is not None:
        return Found(over_cards, is_proof=True)
    found = _walked(Path(spread))
    if found.answer is None and spread.host is not None and not found.is_proof:
        spared = _walked(Path(spread, spares_host=True))
        return spared._replace(is_proof=spared.answer is None and _needs_host(spread))
    return found


def _needs_host(spread: Spread) -> bool:
    """Whether nothing asks less of the host than the path that spares it."""
    assert spread.host is not None
    host = spread.spaces[spread.host]
    plain = not spread.mirror and not host.base and host.load_room >= host.room
    return spread.reach == "own" and plain


def _walked(path: Path) -> Found:
    """The cheapest path, its slices made exact until it stays the cheapest.

    No answer is a proof where not even dense parts fit.
    """
    spread, closed = path.spread, _is_closed(path)
    ends, rounds = path.ends(), 0
    while ends is not None and rounds < MOST_ROUNDS:
        rough = [cut for cut in path.slices(ends) if not path.exact[cut[0]][cut[1:]]]
        if not rough:
            break
        for cut in rough:
            closed &= path.refine(*cut)
        ends, rounds = path.ends(), rounds + 1
    if ends is None:
        return Found(None, is_proof=spread.host is not None or closed)
    answer = Spreading(ends, _filled(path, ends))
    fits_all = not any(short_by(spread, measure(spread, answer)))
    return Found(answer if fits_all else None, fits_all and closed and rounds < MOST_ROUNDS)


def _is_closed(path: Path) -> bool:
    """Whether nothing beside the slices is bound."""
    return path.spread.reach == "own"


def _filled(path: Path, ends: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Space of each expert tensor: early layers of a slice keep theirs (ik_llama.cpp #2262)."""
    spread = path.spread
    found: list[tuple[int, ...]] = [()] * len(spread.slots)
    for at, start, end in path.slices(ends):
        slots = range(start, end)
        if at == spread.host or spread.host is None:
            for slot in slots:
                found[slot] = (at,) * len(spread.slots[slot].experts)
            continue
        chosen = path.choice(at, start, end)
        left, full = Counter(chosen.counts), Counter(chosen.full)
        whole = [slot for slot in slots if _takes(full, spread.slots[slot].experts)]
        for slot in whole:
            left.subtract(spread.slots[slot].experts)
            found[slot] = (at,) * len(spread.slots[slot].experts)
        for slot in slots:
            if slot not in whole:
                tensors = spread.slots[slot].experts
                found[slot] = tuple(at if _takes(left, t) else spread.host for t in tensors)
    return tuple(found)


def _takes(left: Counter[Any], kind: Any) -> bool:
    """Take one of a kind, where one is left."""
    is_left = left[kind] > 0
    left[kind] -= is_left
    return is_left
