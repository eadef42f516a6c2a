"""What falls short, and by how much: for a value not reached, and where nothing fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kvplan.kernels.bytes import least_kept
from kvplan.kernels.instance import Budget, Instance, Variable
from kvplan.kernels.search.bounds import Bounds, LeastDemand, point_at
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point, linear_value, scale_held, variable_value
from kvplan.models import Problem

MOST_STARTS = 64  # combinations of open choices that a note tries
MOST_MENDED = 256  # ways to obey the linear constraints that a note tries


def pool_limit(problem: Problem, instance: Instance, pool: int) -> str:
    """What keeps a pool from having more blocks."""
    most, own = instance.pools[pool].most, problem.pools[pool].max_blocks
    return f"max_blocks is {most}" if most == own else f"max_bytes allows {most}"


class Shortage(NamedTuple):
    """A least demand, and by how much it falls short."""

    point: Point  # the decisions of the demand, feasible or not
    budgets: tuple[tuple[Budget, int], ...]  # those that are short, with bytes
    pools: tuple[int, ...]  # pools whose max_blocks is too low

    @property
    def worst(self) -> tuple[bool, int]:
        """For comparing: pool limits first, then the largest byte shortage."""
        return bool(self.pools), max((missing for _, missing in self.budgets), default=0)


def _least_shortage(search: Search, starts: list[Bounds]) -> Shortage:
    """The shortage of the least demand that comes nearest to fitting."""
    return min(
        (
            _shortage(search, bounds, demand)
            for bounds in starts
            for demand in search.demands(bounds)
        ),
        key=lambda shortage: shortage.worst,
    )


def shortage_at_floors(instance: Instance, search: Search | None = None) -> Shortage:
    """What falls short with everything elastic at its floor, linear constraints apart.

    Parameters
    ----------
    search : the search of the instance, where there is one already.
    """
    search = Search(instance) if search is None else search
    return _least_shortage(search, search.starts())


def floor_point(instance: Instance) -> Point:
    """Everything elastic at its floor: of each pool the fewest blocks that any demand takes."""
    search = Search(instance)
    demands = [demand.usable for demand in search.demands(search.starts()[0])]
    least = tuple(map(min, zip(*demands, strict=True)))[: len(instance.pools)]
    return shortage_at_floors(instance, search).point._replace(usable=least)


def _least_obeying(search: Search, starts: list[Bounds]) -> Shortage | None:
    """The same among the least demands that obey the linear constraints; None: none does.

    A demand that breaks a one-sided constraint is mended by each member that raises its sum, one
    after the other: two members that share the rest are not tried.
    """
    sides = _sides(search.instance)
    found: Shortage | None = None
    waiting, seen = starts[::-1], set[Bounds]()
    while waiting and len(seen) < MOST_MENDED:
        bounds = waiting.pop()
        if bounds in seen:
            continue
        seen.add(bounds)
        for demand in search.demands(bounds):
            broken = _broken(search, bounds, demand, sides)
            if broken is not None:
                waiting += _mended(search, bounds, demand, *broken)
                continue
            shortage = _shortage(search, bounds, demand)
            if found is None or shortage.worst < found.worst:
                found = shortage
    return found


class _Side(NamedTuple):
    """sum(coefficient x variable) >= least; an option counts 1 where it is chosen."""

    members: tuple[tuple[int, Variable, int], ...]
    least: int


def _sides(instance: Instance) -> tuple[_Side, ...]:
    """Every linear constraint as one-sided constraints."""
    sides = []
    for constraint in instance.constraints:
        if constraint.least is not None:
            sides.append(_Side(constraint.members, constraint.least))
        if constraint.most is not None:
            negated = tuple((-c, variable, option) for c, variable, option in constraint.members)
            sides.append(_Side(negated, -constraint.most))
    return tuple(sides)


def _broken(
    search: Search, bounds: Bounds, demand: LeastDemand, sides: tuple[_Side, ...]
) -> tuple[_Side, int] | None:
    """The first constraint that a demand breaks, and what its sum lacks."""
    point = _point(search.instance, bounds, demand)
    for side in sides:
        missing = side.least - linear_value(search.instance, search.demand, point, side.members)
        if missing > 0:
            return side, missing
    return None


def _mended(
    search: Search, bounds: Bounds, demand: LeastDemand, side: _Side, missing: int
) -> Iterator[Bounds]:
    """The bounds with one member raised as far as the constraint lacks, for each that may rise."""
    point = _point(search.instance, bounds, demand)
    for coefficient, variable, option in side.members:
        if coefficient <= 0 or option >= 0:
            continue
        value = variable_value(search.instance, search.demand, point, variable)
        wanted = value - (-missing // coefficient)
        most = search.range_of(bounds, variable)[1]
        if most is not None:
            wanted = min(wanted, most)  # another member may do the rest
        if wanted > value:
            yield search.at_least(bounds, variable, wanted)


def _point(instance: Instance, bounds: Bounds, demand: LeastDemand) -> Point:
    """The decisions of a least demand, the fewest slots kept in prefill."""
    experts = instance.experts
    return point_at(bounds, demand, least_kept(bounds.experts, experts) if experts else 0)


def _shortage(search: Search, bounds: Bounds, demand: LeastDemand) -> Shortage:
    budgets = []
    for budget in search.instance.every_budget:
        missing = search.used(budget, bounds, demand) - budget.limit_bytes
        if missing > 0:
            budgets.append((budget, missing))
    pools = tuple(
        index
        for index, (pool, usable) in enumerate(
            zip(search.instance.pools, demand.usable, strict=False)
        )
        if pool.most is not None and usable > pool.most
    )
    return Shortage(_point(search.instance, bounds, demand), tuple(budgets), pools)


def _bounds_before(search: Search, point: Point, variable: Variable) -> list[Bounds]:
    """The starts in which a variable was decided; what earlier goals won is held.

    Members of the same weighted goal are held too. Choices that come later are open, unless their
    combinations are too many to look at.
    """
    held: list[Variable] = []
    for goal in search.instance.objectives:
        members = [term.variable for term in goal.members]
        held += [member for member in members if member != variable]
        if variable in members:
            break
    scaled = any(member.kind == "scale" for member in held)
    held = [member for member in held if member.kind != "scale"]
    values = {m: variable_value(search.instance, search.demand, point, m) for m in held}
    chosen = {member.position for member in held if member.kind == "choice"}
    starts = [
        bounds
        for bounds in search.starts()
        if all(bounds.options[choice] == point.options[choice] for choice in chosen)
    ]
    if len(starts) > MOST_STARTS:
        starts = [starts[0]._replace(options=point.options)]
    if scaled:
        scale = scale_held(search.instance, search.demand, point)
        starts = [bounds._replace(scale=scale) for bounds in starts]
    return [_held(search, bounds, values) for bounds in starts]


def _held(search: Search, bounds: Bounds, values: Mapping[Variable, int]) -> Bounds:
    """The bounds with values that a point has; blocks all at once, there may be many pools."""
    blocks = [*bounds.blocks]
    for member, value in values.items():
        if member.kind == "blocks":
            blocks[member.position] = max(value, blocks[member.position])
            continue
        bounds = search.at_least(bounds, member, value)
        if member.kind == "capacity":
            bounds = search.settled(bounds, member, value)
    return bounds._replace(blocks=tuple(blocks))


def shortage_at(search: Search, point: Point, variable: Variable, value: int) -> Shortage:
    """What falls short when a variable takes a value that it did not reach.

    Nothing is, where a goal of higher priority or a linear constraint rules the value out.
    """
    starts = _bounds_before(search, point, variable)
    if variable.kind == "choice":
        place = variable.position
        starts = [
            bounds._replace(options=(*bounds.options[:place], -value, *bounds.options[place + 1 :]))
            for bounds in starts
        ]
    else:
        starts = [search.settled(bounds, variable, value) for bounds in starts]
    starts = list(dict.fromkeys(starts))
    if search.instance.constraints:
        found = _least_obeying(search, starts)
        if found is not None:
            return found
        return _least_shortage(search, starts)._replace(budgets=(), pools=())
    return _least_shortage(search, starts)
