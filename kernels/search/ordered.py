"""Goal after goal over the search, then fill, then the rest: a whole plan in integers."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.search.bounds import Bounds, LeastDemand, point_at
from kvplan.kernels.search.enumerated import is_listable, raise_listed
from kvplan.kernels.search.raising import raise_single, raise_weighted
from kvplan.kernels.search.scale import raise_scale
from kvplan.kernels.search.search import Search
from kvplan.kernels.search.shares import most_kept, share_out
from kvplan.kernels.values import Answer, Number, goal_values, times


def solve(search: Search) -> Answer | None:
    """Best point in the order of the goals; None when nothing fits.

    `exact` says whether the answer is proven. It is for ordered goals, and for weighted ones over
    listed variables and at most one other whose worth never falls. Any other weighted goal gets a
    good point and a bound. Linear constraints are ignored here.
    """
    bounds, exact = search.starts(), True
    tops: list[Number | None] = []
    for number, goal in enumerate(search.shape.objectives):
        if number == search.pools_from and len(bounds) == 1:
            return _filled(search, bounds[0], tops, number, exact)
        variable, proven = goal.single, True
        top: Number | None
        if variable is not None and variable.kind == "scale":
            bounds, top = raise_scale(search, bounds)
        elif variable is not None:
            bounds, value = raise_single(search, bounds, variable)
            top = None if value is None else times(goal.members[0].weight, value)
        elif is_listable(goal):
            bounds, top = raise_listed(search, bounds, goal)
        else:
            bounds, top, proven = raise_weighted(search, bounds, goal)
        if not bounds:
            return None
        # After an unproven goal, bounds hold only within what it decided.
        tops.append(top if exact else None)
        exact = exact and proven
    return _best_end(search, bounds, tops, exact)


def _filled(
    search: Search, bounds: Bounds, tops: list[Number | None], number: int, exact: bool
) -> Answer | None:
    """Raise the pools of the last goals in one pass and finish."""
    demand = search.fitting(bounds)
    if demand is None:
        return None
    goals = search.shape.objectives[number:]
    pools = [goal.pool for goal in goals if goal.pool is not None]
    demand = search.raised(bounds, demand, pools)
    reached = [demand.usable[pool] if exact else None for pool in pools]
    return _finished(search, bounds, demand, [*tops, *reached], exact)


def _best_end(
    search: Search, bounds: list[Bounds], tops: Sequence[Number | None], exact: bool
) -> Answer | None:
    """The answer that keeps most experts, then holds the smallest pools in order."""
    # The base of a share depends on which end leaves the other pools smallest.
    exact = exact and (len(bounds) == 1 or not search.shape.fill_shares)
    found = []
    for each in bounds:
        demand = search.fitting(each)
        if demand is not None:
            found.append(_finished(search, each, demand, tops, exact))
    return min(found, key=lambda a: (-a.point.kept, a.point.usable), default=None)


def _finished(
    search: Search,
    bounds: Bounds,
    demand: LeastDemand,
    tops: Sequence[Number | None],
    exact: bool,
) -> Answer:
    """Fill by shares, keep experts in prefill, and value every goal."""
    demand = share_out(search, bounds, demand)
    point = point_at(bounds, demand, most_kept(search, bounds, demand))
    values = goal_values(search.shape, search.demand, point)
    return Answer(point, values, tuple(tops), exact)
