"""The host's search of one problem, and what it can say under linear constraints."""

from __future__ import annotations

from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.over_shares import within_shares
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point, constraint_value, holds, variable_value
from kvplan.solver.solve.repair import Questions, repaired


def incumbent_of(search: Search) -> Answer | None:
    """The nested search's answer; None: proven infeasible.

    Linear constraints only remove points. So the best point without them is the best if it obeys
    them, and nothing fits with them if nothing fits without. Otherwise the first goal's bound
    stays, and `mended` looks for a point that obeys.
    """
    found = solve(search)
    if found is None:
        return None
    if obeys(search, found.point):
        return within_shares(search, found)
    bounds = (*found.bounds[:1], *(None for _ in found.bounds[1:]))
    return found._replace(bounds=bounds, exact=False)


def mended(search: Search, found: Answer) -> Answer | None:
    """A point that obeys the linear constraints, found from one that does not; None: none found."""
    instance, demand = search.instance, search.demand

    ask = Questions(
        answer=lambda narrowed: solve(Search(narrowed)),
        value=lambda point, variable: variable_value(instance, demand, point, variable),
        raw=lambda point, batch: demand.raw(batch, point.chunk, point.capacities, point.counts),
    )
    answer = repaired(instance, found, ask)
    return None if answer is None else within_shares(search, answer)


def obeys(search: Search, point: Point) -> bool:
    """Whether a point obeys every linear constraint."""
    instance, demand = search.shape, search.demand
    return all(
        holds(constraint, constraint_value(instance, demand, point, constraint))
        for constraint in instance.constraints
    )
