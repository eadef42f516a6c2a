"""The trade that a user makes: a longer context, or more experts on the cards."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.models import Problem
from kvplan.solver.place.engine_default import tokens_a_second
from kvplan.solver.place.search.placement_search import PlaceSearch
from kvplan.solver.place.search.spread import measure
from kvplan.solver.place.slot_program import Values

LEAST_TOKENS = 4096


class Point(NamedTuple):
    """One context, and the best speed at it."""

    context_tokens: int
    tokens_a_second: str
    picoseconds: int
    layers: int  # on cards
    experts: int  # on cards


def frontier(problem: Problem) -> list[Point]:
    """The best speed at 4,096 tokens, twice as many, ... and at the longest context that fits.

    Nothing without bandwidths, a host and a request whose capacity is fitted.
    """
    place = problem.place
    if place is None or not place.read or place.host is None:
        return []
    search = PlaceSearch(problem)
    at = next((i for i, f in enumerate(search.program.instance.fitted) if not f.is_count), None)
    least = search.program.least()
    if at is None or not search.decide.fits(least):
        return []
    longest = search.raised(least, f"capacity:{search.program.instance.fitted[at].name}")
    most, lowest = longest.fitted[at], max(LEAST_TOKENS, least.fitted[at])
    contexts = [lowest << power for power in range(60) if lowest << power < most]
    found = [_point(search, least, at, context) for context in (*contexts, most)]
    return [point for point in found if point is not None]


def _point(search: PlaceSearch, least: Values, at: int, context: int) -> Point | None:
    fitted = list(least.fitted)
    fitted[at] = context
    values = least._replace(fitted=tuple(fitted))
    spread = search.program.spread(values, ("speed",))
    answer = None if spread is None else search.decide.best(spread)
    if spread is None or answer is None:
        return None
    told = measure(spread, answer)
    layers = sum(slot.is_layer for slot in spread.slots) - told.layers_off
    experts = sum(len(slot.experts) for slot in spread.slots) - told.experts_off
    time = told.picoseconds
    return Point(context, tokens_a_second(time), time, layers, experts)
