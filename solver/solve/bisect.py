"""The host's search of one problem: plain, under linear constraints, or along shared rows."""

from __future__ import annotations

from kvplan.kernels.constrained import Constrained
from kvplan.kernels.instance import Instance
from kvplan.kernels.nested import Search
from kvplan.kernels.ordered import solve
from kvplan.kernels.raising import UnprovenError
from kvplan.kernels.values import Answer, Point, constraint_value, holds


def search(nested: Search) -> Answer | None:
    """The nested search's answer; None: proven infeasible.

    Linear constraints only take points away: if the best point without them obeys them, it is the
    best. Else the search is run under them; where that proves nothing, the first bound stays.
    """
    bracket = solve(nested)
    if bracket is None or obeys(nested, bracket.point):
        return bracket
    constrained = under_constraints(nested.instance)
    try:
        found = solve(constrained)
    except UnprovenError:
        constrained = Constrained(nested.instance)
        found = solve(constrained)
    if constrained.is_exact:
        return found if found is None or found.exact else _bounded_by(bracket, found)
    bounds = (bracket.bounds[0], *(None for _ in bracket.bounds[1:])) if bracket.bounds else ()
    if found is None or not obeys(nested, found.point):
        return bracket._replace(bounds=bounds, exact=False)
    return found._replace(bounds=bounds, exact=False)


def _bounded_by(looser: Answer, found: Answer) -> Answer:
    """An unproven answer, its first bound no higher than without the linear constraints."""
    first = [bounds[0] for bounds in (looser.bounds, found.bounds) if bounds]
    known = [bound for bound in first if bound is not None]
    return found._replace(bounds=(min(known, default=None), *found.bounds[1:]))


def under_constraints(instance: Instance) -> Constrained:
    """The search under linear constraints, of the form that proves most."""
    constrained = Constrained(instance)
    if constrained.is_exact:
        return constrained
    from kvplan.kernels.split import split_search

    return split_search(constrained) or constrained


def obeys(nested: Search, point: Point) -> bool:
    """Whether a point obeys every linear constraint."""
    instance, demand = nested.instance, nested.demand
    return all(
        holds(constraint, constraint_value(instance, demand, point, constraint))
        for constraint in instance.constraints
    )
