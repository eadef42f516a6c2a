"""The host's search of one problem, and what it can say under linear constraints."""

from __future__ import annotations

from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point, constraint_value, holds, variable_value
from kvplan.solver.solve.repair import Questions, repaired


def incumbent_of(search: Search) -> Answer | None:
    """The nested search's answer; None: proven infeasible.

    Linear constraints only take points away. So a point without them that obeys them is the best,
    a refusal without them is a refusal, and else the first goal's bound stays: the point does not
    obey then, and `mended` looks for one that does.
    """
    found = solve(search)
    if found is None or obeys(search, found.point):
        return found
    bounds = (*found.bounds[:1], *(None for _ in found.bounds[1:]))
    return found._replace(bounds=bounds, exact=False)


def mended(search: Search, found: Answer) -> Answer | None:
    """A point that obeys the linear constraints, from one that does not; None: none was found."""
    instance, demand = search.instance, search.demand

    ask = Questions(
        answer=lambda narrowed: solve(Search(narrowed)),
        value=lambda point, variable: variable_value(instance, demand, point, variable),
        raw=lambda point, batch: demand.raw(batch, point.chunk, point.capacities, point.counts),
    )
    return repaired(instance, found, ask)


def obeys(search: Search, point: Point) -> bool:
    """Whether a point obeys every linear constraint."""
    instance, demand = search.instance, search.demand
    return all(
        holds(constraint, constraint_value(instance, demand, point, constraint))
        for constraint in instance.constraints
    )
