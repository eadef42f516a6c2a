"""What falls short, and by how much: for a value not reached, and where nothing fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kvplan.kernels.bytes import least_kept
from kvplan.kernels.instance import Budget, Instance, Variable
from kvplan.kernels.search.bounds import Bounds, LeastDemand, point_at
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point, linear_value, variable_value

MOST_WORLDS = 64  # combinations of open choices that a note looks at
MOST_MENDED = 256  # ways to obey the linear constraints that a note looks at


class Shortage(NamedTuple):
    """The least demand of a world, and by how much it falls short."""

    world: Bounds
    corner: LeastDemand
    rows: tuple[tuple[Budget, int], ...]  # rows that are short, with bytes
    pools: tuple[int, ...]  # pools whose max_blocks is too low

    @property
    def worst(self) -> tuple[bool, int]:
        """For comparing: pool limits first, then the largest byte shortage."""
        return bool(self.pools), max((missing for _, missing in self.rows), default=0)


def least_shortage(nested: Search, worlds: list[Bounds]) -> Shortage:
    """The shortage of the least demand that comes nearest to fitting."""
    return min(
        (_shortage(nested, world, corner) for world in worlds for corner in nested.demands(world)),
        key=lambda shortage: shortage.worst,
    )


def floor_point(nested: Search) -> Point:
    """Everything elastic at its floor: of each pool the fewest blocks that any demand takes."""
    shortage = least_shortage(nested, nested.starts())
    demands = [corner.usable for corner in nested.demands(shortage.world)]
    least = tuple(map(min, zip(*demands, strict=True)))
    return _point(nested.instance, shortage.world, shortage.corner)._replace(usable=least)


def _least_obeying(nested: Search, worlds: list[Bounds]) -> Shortage | None:
    """The same among the least demands that obey the linear constraints; None: none does.

    A demand that breaks a one-sided row is mended by each member that raises its sum, one after
    the other: what two of them would lack if they shared the rest is not looked for.
    """
    sides = _sides(nested.instance)
    found: Shortage | None = None
    open_worlds, seen = worlds[::-1], set[Bounds]()
    while open_worlds and len(seen) < MOST_MENDED:
        world = open_worlds.pop()
        if world in seen:
            continue
        seen.add(world)
        for corner in nested.demands(world):
            broken = _broken(nested, world, corner, sides)
            if broken is not None:
                open_worlds += _mended(nested, world, corner, *broken)
                continue
            shortage = _shortage(nested, world, corner)
            if found is None or shortage.worst < found.worst:
                found = shortage
    return found


class _Side(NamedTuple):
    """sum(coefficient x variable) >= least; an option counts 1 where it is chosen."""

    members: tuple[tuple[int, Variable, int], ...]
    least: int


def _sides(instance: Instance) -> tuple[_Side, ...]:
    """Every linear constraint as one-sided rows."""
    sides = []
    for constraint in instance.constraints:
        if constraint.least is not None:
            sides.append(_Side(constraint.members, constraint.least))
        if constraint.most is not None:
            negated = tuple((-c, variable, option) for c, variable, option in constraint.members)
            sides.append(_Side(negated, -constraint.most))
    return tuple(sides)


def _broken(
    nested: Search, world: Bounds, corner: LeastDemand, sides: tuple[_Side, ...]
) -> tuple[_Side, int] | None:
    """The first row that a demand breaks, and what its sum lacks."""
    point = _point(nested.instance, world, corner)
    for side in sides:
        missing = side.least - linear_value(nested.instance, nested.demand, point, side.members)
        if missing > 0:
            return side, missing
    return None


def _mended(
    nested: Search, world: Bounds, corner: LeastDemand, side: _Side, missing: int
) -> Iterator[Bounds]:
    """The world with one member of a row raised as far as the row lacks, for each that may rise."""
    point = _point(nested.instance, world, corner)
    for coefficient, variable, option in side.members:
        if coefficient <= 0 or option >= 0:
            continue
        value = variable_value(nested.instance, nested.demand, point, variable)
        wanted = value - (-missing // coefficient)
        most = nested.range_of(world, variable)[1]
        if most is not None:
            wanted = min(wanted, most)  # another member may do the rest
        if wanted > value:
            yield nested.at_least(world, variable, wanted)


def _point(instance: Instance, world: Bounds, corner: LeastDemand) -> Point:
    """The decisions of a least demand, the fewest slots kept in prefill."""
    experts = instance.experts
    return point_at(world, corner, least_kept(world.experts, experts) if experts else 0)


def _shortage(nested: Search, world: Bounds, corner: LeastDemand) -> Shortage:
    rows = []
    for row in nested.instance.every_budget:
        missing = nested.used(row, world, corner) - row.limit_bytes
        if missing > 0:
            rows.append((row, missing))
    pools = tuple(
        index
        for index, (pool, usable) in enumerate(
            zip(nested.instance.pools, corner.usable, strict=True)
        )
        if pool.most is not None and usable > pool.most
    )
    return Shortage(world, corner, tuple(rows), pools)


def worlds_before(nested: Search, point: Point, variable: Variable) -> list[Bounds]:
    """The worlds in which a variable was decided: what goals of higher priority won is held.

    Members of the same weighted goal are held too. Choices that come later are open, unless their
    combinations are too many to look at.
    """
    held: list[Variable] = []
    for goal in nested.instance.goals:
        members = [term.variable for term in goal.members]
        held += [member for member in members if member != variable]
        if variable in members:
            break
    values = {m: variable_value(nested.instance, nested.demand, point, m) for m in held}
    chosen = {member.position for member in held if member.kind == "choice"}
    worlds = [
        world
        for world in nested.starts()
        if all(world.options[choice] == point.options[choice] for choice in chosen)
    ]
    if len(worlds) > MOST_WORLDS:
        worlds = [worlds[0]._replace(options=point.options)]
    return [_held(nested, world, values) for world in worlds]


def _held(nested: Search, world: Bounds, values: Mapping[Variable, int]) -> Bounds:
    """The world with values that a point has; blocks all at once, there may be many pools."""
    blocks = [*world.blocks]
    for member, value in values.items():
        if member.kind == "blocks":
            blocks[member.position] = max(value, blocks[member.position])
            continue
        world = nested.at_least(world, member, value)
        if member.kind == "capacity":
            world = nested.settled(world, member, value)
    return world._replace(blocks=tuple(blocks))


def shortage_at(nested: Search, point: Point, variable: Variable, value: int) -> Shortage:
    """What falls short when a variable takes a value that it did not reach.

    Nothing is, where a goal of higher priority or a linear constraint rules the value out.
    """
    worlds = worlds_before(nested, point, variable)
    if variable.kind == "choice":
        place = variable.position
        worlds = [
            world._replace(options=(*world.options[:place], -value, *world.options[place + 1 :]))
            for world in worlds
        ]
    else:
        worlds = [nested.settled(world, variable, value) for world in worlds]
    worlds = list(dict.fromkeys(worlds))
    if nested.instance.constraints:
        found = _least_obeying(nested, worlds)
        if found is not None:
            return found
        return least_shortage(nested, worlds)._replace(rows=(), pools=())
    return least_shortage(nested, worlds)
