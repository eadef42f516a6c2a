"""The nested search under linear constraints.

Every constraint is one or two one-sided rows, sum(coefficient x variable) >= least. A row that a
least demand breaks can be mended by a member that grows. Where each row has at most one such
member, and that is a pool or the expert slots, raising it is forced: the least demand under the
constraints is a least fixpoint, and the search stays exact. Else it only finds good points.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.capacity import CapacityGrid, largest_unbounded
from kvplan.kernels.instance import Instance, Variable
from kvplan.kernels.nested import Search
from kvplan.kernels.values import linear_value
from kvplan.kernels.worlds import Bounds, LeastDemand, point_at

_ROUNDS = 64
_MOST_CLASSES = 4096  # residues to bisect one by one where a constraint holds a capacity
MENDING = ("blocks", "experts")


class Side(NamedTuple):
    """sum(coefficient x variable) >= least; an option counts 1 where it is chosen."""

    members: tuple[tuple[int, Variable, int], ...]
    least: int

    @property
    def menders(self) -> list[tuple[int, Variable]]:
        """Members that raise the left side by growing."""
        return [(c, variable) for c, variable, option in self.members if c > 0 and option < 0]


def sides_of(instance: Instance) -> tuple[Side, ...]:
    """Every linear constraint as one-sided rows."""
    sides = []
    for constraint in instance.constraints:
        if constraint.least is not None:
            sides.append(Side(constraint.members, constraint.least))
        if constraint.most is not None:
            negated = tuple((-c, variable, option) for c, variable, option in constraint.members)
            sides.append(Side(negated, -constraint.most))
    return tuple(sides)


def is_forced(side: Side) -> bool:
    """Whether a row has no member that mends it, or one whose least value is easily found."""
    menders = side.menders
    return not menders or (len(menders) == 1 and menders[0][1].kind in MENDING)


class Constrained(Search):
    """Search search whose least demands obey the linear constraints."""

    climbs = False
    fills_in_order = False
    prunes = False  # a constraint may want the smaller capacity that needs no less

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self.sides = sides_of(instance)
        self.forced = self.sides  # rows with at most one member that mends them
        for side in self.sides:
            for _, variable, _ in side.members:
                if variable.kind == "capacity":
                    grid = CapacityGrid(instance, variable.position, every_token=True)
                    self.grids[variable.position] = grid
        self.is_small = not instance.fill_shares and all(
            grid is None or grid.period <= _MOST_CLASSES for grid in self.grids
        )
        self.is_exact = self.is_small and all(map(is_forced, self.sides))

    def worlds(self) -> list[Bounds]:
        """Undecided worlds; if mending is not forced, raised until a demand obeys the rows."""
        worlds = super().worlds()
        if self.is_exact:
            return worlds
        raised = (self._raised(world) for world in worlds)
        return [world for world in raised if world is not None]

    def corner(self, world: Bounds, point: tuple[int, ...]) -> LeastDemand:
        """The least demand, pools and slots raised where that mends a row."""
        corner = super().corner(world, point)
        for _ in range(_ROUNDS):
            raised = self._mended(world, corner)
            if raised is None or raised == corner or not self._within(world, raised):
                return raised or corner
            corner = raised
        self.is_exact = False
        return corner

    def fits(self, world: Bounds, corner: LeastDemand) -> bool:
        """Pool and slot limits, budgets, and every linear row."""
        return self._within(world, corner) and self._broken(world, corner, self.sides) is None

    def _within(self, world: Bounds, corner: LeastDemand) -> bool:
        experts = self.instance.experts
        if experts is not None and experts.most is not None and corner.experts > experts.most:
            return False
        return super().fits(world, corner)

    def largest_blocks(self, world: Bounds, pool: int) -> int | None:
        """By bisection: raising a pool may raise others."""
        corners = [corner for corner in self.corners(world) if self.fits(world, corner)]
        if not corners:
            return None
        variable = Variable("blocks", pool)
        instance = self.instance.pools[pool]
        low = min(corner.usable[pool] for corner in corners) // instance.multiple
        steps = largest_unbounded(
            lambda k: self.possible(self.at_least(world, variable, k * instance.multiple)),
            low,
            max(self.blocks_in_rest(world, corner, pool) for corner in corners)
            // instance.multiple,
        )
        return steps * instance.multiple

    def _mended(self, world: Bounds, corner: LeastDemand) -> LeastDemand | None:
        """The demand with the first broken row mended; None if no row is broken."""
        broken = self._broken(world, corner, self.forced)
        if broken is None:
            return None
        side, missing = broken
        for coefficient, variable in side.menders:
            if variable.kind == "experts":
                return corner._replace(experts=corner.experts - (-missing // coefficient))
            if variable.kind == "blocks":
                usable = [*corner.usable]
                multiple = self.instance.pools[variable.position].multiple
                raised = usable[variable.position] - (-missing // coefficient)
                usable[variable.position] = -(-raised // multiple) * multiple
                return corner._replace(usable=tuple(usable))
        return corner

    def _broken(
        self, world: Bounds, corner: LeastDemand, sides: tuple[Side, ...]
    ) -> tuple[Side, int] | None:
        """The first row that a demand breaks, and what is missing."""
        point = point_at(world, corner, corner.experts)
        for side in sides:
            missing = side.least - linear_value(self.instance, self.demand, point, side.members)
            if missing > 0:
                return side, missing
        return None

    def _raised(self, world: Bounds) -> Bounds | None:
        """Raise counts, capacities or the chunk until some least demand breaks no row."""
        for _ in range(_ROUNDS):
            broken = [self._broken(world, corner, self.sides) for corner in self.corners(world)]
            if None in broken:
                return world
            step = self._grown(world, *next(entry for entry in broken if entry is not None))
            if step is None or step == world:
                return None
            world = step
        return None

    def _grown(self, world: Bounds, side: Side, missing: int) -> Bounds | None:
        for coefficient, variable in side.menders:
            if variable.kind in ("count", "capacity", "prefill"):
                low, high = self.range_of(world, variable)
                wanted = low - (-missing // coefficient)
                if high is None or wanted <= high:
                    return self.at_least(world, variable, wanted)
        return None
