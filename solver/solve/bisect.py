"""The host's search of one problem, and whether its point obeys the linear constraints."""

from __future__ import annotations

from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point, constraint_value, holds


def search(nested: Search) -> Answer | None:
    """The search's answer; None: proven infeasible.

    Linear constraints only take points away: if the best point without them obeys them, it is the
    best. Else it is a hint, and only its first bound still holds.
    """
    answer = solve(nested)
    if answer is None or obeys(nested, answer.point):
        return answer
    bounds = (answer.bounds[0], *(None for _ in answer.bounds[1:])) if answer.bounds else ()
    return answer._replace(bounds=bounds, exact=False)


def obeys(nested: Search, point: Point) -> bool:
    """Whether a point obeys every linear constraint."""
    instance, demand = nested.instance, nested.demand
    return all(
        holds(constraint, constraint_value(instance, demand, point, constraint))
        for constraint in instance.constraints
    )
