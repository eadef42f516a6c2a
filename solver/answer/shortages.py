"""What would be short: for a value that was not reached, and for a problem that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan.kernels.instance import Budget, Variable
from kvplan.kernels.search.bounds import Bounds, LeastDemand
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point, variable_value

MOST_WORLDS = 64  # combinations of open choices that a note looks at


class Shortage(NamedTuple):
    """The least demand of a world, and what it lacks."""

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
    found = [
        _shortage(nested, world, corner) for world in worlds for corner in nested.demands(world)
    ]
    return min(found, key=lambda shortage: shortage.worst)


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
    """What is short when a variable takes a value that it did not reach."""
    worlds = worlds_before(nested, point, variable)
    if variable.kind == "choice":
        place = variable.position
        worlds = [
            world._replace(options=(*world.options[:place], -value, *world.options[place + 1 :]))
            for world in worlds
        ]
    else:
        worlds = [nested.settled(world, variable, value) for world in worlds]
    return least_shortage(nested, list(dict.fromkeys(worlds)))
