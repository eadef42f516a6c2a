"""What CP-SAT decided, as a world of the nested search."""

from __future__ import annotations

from kvplan.kernels.search.bounds import Bounds
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point, variable_value


def world_at(nested: Search, point: Point, decided: int) -> Bounds:
    """The world in which the first goals are decided as at a point; pools are at their least.

    Blocks and copies are held where a plain goal raised them.
    """
    instance = nested.instance
    fitted = tuple(
        count if request.is_count else capacity
        for request, capacity, count in zip(
            instance.fitted, point.capacities, point.counts, strict=True
        )
    )
    world = Bounds(
        low=fitted,
        high=fitted,
        chunk=point.chunk,
        chunk_most=point.chunk,
        options=point.options,
        experts=point.experts,
        blocks=tuple(0 for _ in instance.pools),
        copies=tuple(0 for _ in instance.batches),
    )
    for goal in instance.goals[:decided]:
        variable = goal.single
        if variable is not None and variable.kind in ("blocks", "copies"):
            value = variable_value(instance, nested.demand, point, variable)
            world = nested.at_least(world, variable, value)
    return world
