"""What would be short: for a value that was not reached, and for a problem that does not fit."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.nested import Corner, Nested, World
from kvplan.kernels.terms import Row, Variable
from kvplan.kernels.values import Point, variable_value


class Shortage(NamedTuple):
    """The least demand of a world, and what it lacks."""

    world: World
    corner: Corner
    rows: tuple[tuple[Row, int], ...]  # rows that are short, with bytes
    pools: tuple[int, ...]  # pools whose max_blocks is too low

    @property
    def worst(self) -> tuple[bool, int]:
        """For comparing: pool limits first, then the largest byte shortage."""
        return bool(self.pools), max((missing for _, missing in self.rows), default=0)


def least_shortage(nested: Nested, worlds: list[World]) -> Shortage:
    """The shortage of the least demand that comes nearest to fitting."""
    found = [
        _shortage(nested, world, corner) for world in worlds for corner in nested.corners(world)
    ]
    return min(found, key=lambda shortage: shortage.worst)


def _shortage(nested: Nested, world: World, corner: Corner) -> Shortage:
    rows = []
    for row in nested.terms.every_row:
        missing = nested.used(row, world, corner) - row.room
        if missing > 0:
            rows.append((row, missing))
    pools = tuple(
        index
        for index, (pool, usable) in enumerate(zip(nested.terms.pools, corner.usable, strict=True))
        if pool.most is not None and usable > pool.most
    )
    return Shortage(world, corner, tuple(rows), pools)


def world_before(nested: Nested, point: Point, variable: Variable) -> World:
    """The world in which a variable was decided: what goals of higher priority won is held.

    Members of the same weighted goal are held too.
    """
    world = nested.worlds()[0]._replace(options=point.options)
    for goal in nested.terms.goals:
        members = [term.variable for term in goal.terms]
        for member in members:
            if member != variable:
                value = variable_value(nested.terms, nested.demand, point, member)
                world = nested.at_least(world, member, value)
                if member.kind == "capacity":
                    world = nested.settled(world, member, value)
        if variable in members:
            break
    return world


def shortage_at(nested: Nested, point: Point, variable: Variable, value: int) -> Shortage:
    """What is short when a variable takes a value that it did not reach."""
    world = world_before(nested, point, variable)
    if variable.kind == "choice":
        options = list(world.options)
        options[variable.position] = -value
        world = world._replace(options=tuple(options))
    else:
        world = nested.settled(world, variable, value)
    return least_shortage(nested, [world])
