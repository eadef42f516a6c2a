"""The nested search under linear constraints: points that obey them, nothing proven.

Where a constraint is broken, a member that can mend it by growing is raised just enough; the
search then goes on from there. Good for rows that tie pools or slots to each other; what it finds
is checked, what it does not find may still exist.
"""

from __future__ import annotations

from kvplan.kernels.capacity import largest_unbounded
from kvplan.kernels.nested import Corner, Nested, World
from kvplan.kernels.terms import LinearTerms, Variable
from kvplan.kernels.values import Point, constraint_value, holds

_ROUNDS = 32
_GROWING = ("experts", "count", "capacity", "prefill")


class Constrained(Nested):
    """Nested search whose least demands obey the linear constraints."""

    def worlds(self) -> list[World]:
        """Undecided worlds, raised until their least demand obeys the constraints."""
        raised = (self._raised(world) for world in super().worlds())
        return [world for world in raised if world is not None]

    def corner(self, world: World, point: tuple[int, ...]) -> Corner:
        """The least demand with blocks raised where that mends a constraint."""
        corner = super().corner(world, point)
        for _ in range(_ROUNDS):
            broken = self._broken(world, corner)
            if broken is None:
                break
            pool, blocks = self._block_step(*broken)
            if not blocks:
                break
            usable = [*corner.usable]
            multiple = self.terms.pools[pool].multiple
            usable[pool] = -(-(usable[pool] + blocks) // multiple) * multiple
            corner = corner._replace(usable=tuple(usable))
        return corner

    def fits(self, world: World, corner: Corner) -> bool:
        """Pool limits, rows, and every linear constraint."""
        return super().fits(world, corner) and self._broken(world, corner) is None

    def largest_blocks(self, world: World, pool: int) -> int | None:
        """By bisection: raising a pool may raise others."""
        if not self.possible(world):
            return None
        variable = Variable("blocks", pool)
        multiple = self.terms.pools[pool].multiple
        low = min(c.usable[pool] for c in self.corners(world) if self.fits(world, c)) // multiple
        most = self.terms.pools[pool].most
        steps = largest_unbounded(
            lambda k: self.possible(self.at_least(world, variable, k * multiple)),
            low,
            None if most is None else most // multiple,
        )
        return steps * multiple

    def point_at(self, world: World, corner: Corner) -> Point:
        """The decisions of a least demand."""
        return Point(
            capacities=corner.capacities,
            counts=corner.counts,
            chunk=world.chunk,
            options=world.options,
            experts=world.experts,
            kept=world.experts,
            usable=corner.usable,
        )

    def _broken(self, world: World, corner: Corner) -> tuple[LinearTerms, int] | None:
        """The first constraint that a least demand breaks, and what is missing (signed)."""
        point = self.point_at(world, corner)
        for constraint in self.terms.constraints:
            value = constraint_value(self.terms, self.demand, point, constraint)
            if not holds(constraint, value):
                if constraint.least is not None and value < constraint.least:
                    return constraint, constraint.least - value
                return constraint, (constraint.most or 0) - value
        return None

    def _block_step(self, constraint: LinearTerms, missing: int) -> tuple[int, int]:
        """A pool that mends a constraint by growing, and by how many blocks; 0 if none does."""
        for coefficient, variable, _ in constraint.terms:
            if variable.kind == "blocks" and coefficient * missing > 0:
                return variable.position, -(-abs(missing) // abs(coefficient))
        return 0, 0

    def _raised(self, world: World) -> World | None:
        """Raise slots, counts, capacities or the chunk until some least demand is unbroken."""
        for _ in range(_ROUNDS):
            broken = [self._broken(world, corner) for corner in self.corners(world)]
            if None in broken:
                return world
            step = self._grow(world, *next(entry for entry in broken if entry is not None))
            if step is None or step == world:
                return None
            world = step
        return None

    def _grow(self, world: World, constraint: LinearTerms, missing: int) -> World | None:
        for coefficient, variable, option in constraint.terms:
            if option >= 0 or variable.kind not in _GROWING or coefficient * missing <= 0:
                continue
            low, high = self.range_of(world, variable)
            wanted = low + -(-abs(missing) // abs(coefficient))
            if high is None or wanted <= high:
                return self.at_least(world, variable, wanted)
        return None
