"""Goal after goal over the nested search, then fill, then the rest: a whole plan in integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvplan.kernels.listed import is_listable, raise_listed
from kvplan.kernels.nested import Search
from kvplan.kernels.raising import raise_single, raise_weighted
from kvplan.kernels.shares import most_kept, share_out
from kvplan.kernels.values import Answer, goal_value
from kvplan.kernels.worlds import Bounds, point_at


def solve(nested: Search) -> Answer | None:
    """Best point in the order of the goals; None when nothing fits.

    `exact` says whether the answer is proven: it is for ordered goals, for weighted ones over
    listed variables and at most one other whose worth never falls, and for those over more where
    the search stays within its limits. Linear constraints are not looked at here.

    Raises
    ------
    UnprovenError : the search does not weigh several wide variables.
    """
    if nested.direct is not None:
        return nested.direct.answer([row.limit_bytes for row in nested.instance.budgets])
    worlds = [world for world in nested.worlds() if nested.possible(world)]
    if not worlds:
        return None
    exact = True
    bounds: list[Fraction | None] = []
    for number, goal in enumerate(nested.instance.goals):
        variable = goal.single
        if _is_tail(nested, worlds, number):
            worlds[0], tops = _fill_tail(nested, worlds[0], number)
            bounds += tops if exact else [None] * len(tops)
            break
        if variable is not None:
            worlds, bound = raise_single(nested, worlds, variable)
            if bound is not None:
                bound *= goal.members[0].weight
        elif is_listable(goal):
            worlds, bound = raise_listed(nested, worlds, goal)
        else:
            worlds, bound, proven = raise_weighted(nested, worlds, goal)
            # What follows an unproven goal is only bounded within the world it ended in.
            bounds.append(bound if exact else None)
            exact = exact and proven
            continue
        bounds.append(bound if exact else None)
    return _best_end(nested, worlds, bounds, exact)


def _best_end(
    nested: Search, worlds: list[Bounds], bounds: Sequence[Fraction | None], exact: bool
) -> Answer | None:
    """The answer of the world that keeps most experts, then holds the smallest pools in order."""
    if len(worlds) == 1:
        return finish(nested, worlds[0], bounds, exact)
    # What a share is of depends on which world the other pools are smallest in.
    exact = exact and not nested.instance.fill_shares
    ends = [finish(nested, world, bounds, exact) for world in worlds]
    found = [answer for answer in ends if answer is not None]
    if not found:
        return None
    return min(found, key=lambda answer: (-answer.point.kept, answer.point.usable))


def _is_tail(nested: Search, worlds: list[Bounds], number: int) -> bool:
    """Whether only pools are left to raise, in one world with one least demand."""
    if not nested.fills_in_order or number < nested.instance.fill_from or len(worlds) > 1:
        return False
    goals = nested.instance.goals[number:]
    return all(goal.single is not None and goal.single.kind == "blocks" for goal in goals)


def _fill_tail(nested: Search, world: Bounds, number: int) -> tuple[Bounds, list[Fraction]]:
    """Raise the pools of the last goals in one pass."""
    corner = next(c for c in nested.corners(world) if nested.fits(world, c))
    pools = [goal.members[0].variable.position for goal in nested.instance.goals[number:]]
    usable = nested.blocks_in_order(world, corner, pools).usable
    blocks = [*world.blocks]
    for pool in pools:
        blocks[pool] = usable[pool]
    return world._replace(blocks=tuple(blocks)), [Fraction(usable[pool]) for pool in pools]


def complete(nested: Search, world: Bounds, decided: Sequence[Fraction | None]) -> Answer:
    """Fill and finish a world in which every goal before fill is decided."""
    worlds = [world]
    bounds = list(decided)
    for number, goal in enumerate(nested.instance.goals):
        if number < nested.instance.fill_from:
            continue
        if _is_tail(nested, worlds, number):
            worlds[0], tops = _fill_tail(nested, worlds[0], number)
            bounds += tops
            break
        assert goal.single is not None
        worlds, bound = raise_single(nested, worlds, goal.single)
        bounds.append(bound)
    answer = finish(nested, worlds[0], bounds, exact=True)
    if answer is None:
        raise RuntimeError("the decided values do not fit beside each other")
    return answer


def finish(
    nested: Search, world: Bounds, bounds: Sequence[Fraction | None], exact: bool
) -> Answer | None:
    """Fill by shares, keep experts in prefill, and value every goal."""
    corner = next((c for c in nested.corners(world) if nested.fits(world, c)), None)
    if corner is None:  # only under constraints whose mending is a guess
        return None
    corner = share_out(nested, world, corner)
    point = point_at(world, corner, most_kept(nested, world, corner))
    instance, demand = nested.instance, nested.demand
    values = tuple(goal_value(instance, demand, point, goal) for goal in instance.goals)
    return Answer(point, values, tuple(bounds), exact)
