"""The nested search under a linear row that two members can mend: every way to split it.

Pools and expert slots x, y in c x + d y >= least: for each x the least y is forced, so a world is
possible if some x fits with its y. Of the x that take the same pages the largest leaves the least
to y, so only the last of each are compared, all at once.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.capacity import bisect_largest, largest_unbounded
from kvplan.kernels.constrained import MENDING, Constrained, Side, is_forced
from kvplan.kernels.exchange.arrays import SAFE_BYTES, Flags, Integers
from kvplan.kernels.instance import Instance, Variable
from kvplan.kernels.pages import Member, Pages
from kvplan.kernels.values import linear_value
from kvplan.kernels.worlds import Bounds, LeastDemand, point_at


class Shared(NamedTuple):
    """A row that two members can mend; the first is a pool."""

    side: Side
    first: Member
    second: Member


def split_search(plain: Constrained) -> Split | None:
    """The search that mends the one row which two members share, where that is exact."""
    # A capacity of many classes is looked up in each of them, which takes CP-SAT less time.
    few = plain.is_small and not any(grid and grid.has_many_classes for grid in plain.grids)
    shared = shared_row(plain.instance, plain.sides) if few else None
    split = None if shared is None else Split(plain.instance, shared)
    return split if split is not None and split.is_exact else None


def shared_row(instance: Instance, sides: tuple[Side, ...]) -> Shared | None:
    """The one row that is mended by two members, where they stand in no other row."""
    open_rows = [side for side in sides if not is_forced(side)]
    if len(open_rows) != 1 or len(open_rows[0].menders) != 2:
        return None
    menders = sorted(open_rows[0].menders, key=lambda entry: entry[1])
    variables = {variable for _, variable in menders}
    elsewhere = {v for side in sides if side != open_rows[0] for _, v, _ in side.members}
    kinds = {variable.kind for variable in elsewhere | {v for _, v, _ in open_rows[0].members}}
    lends = instance.experts is not None and instance.experts.lend_num > 0
    apart = len(variables) == 2 and not variables & elsewhere and "copies" not in kinds
    if not apart or lends or any(variable.kind not in MENDING for variable in variables):
        return None
    return Shared(open_rows[0], menders[0], menders[1])


class Split(Constrained):
    """Constrained search that also mends the row which two members share."""

    weighs = False  # a step takes too long for that

    def __init__(self, instance: Instance, shared: Shared) -> None:
        super().__init__(instance)
        self.shared = shared
        self.forced = tuple(side for side in self.sides if side != shared.side)
        self._hint = 0
        self._any = False  # any split will do, not only that with the fewest of the first pool
        self._pages = Pages(self, shared.first, shared.second)
        self.is_exact = self.is_small and self._pages.is_known

    def possible(self, world: Bounds) -> bool:
        """Whether some least demand of the world fits."""
        before, self._any = self._any, True
        try:
            return super().possible(world)
        finally:
            self._any = before

    def largest(self, world: Bounds, variable: Variable) -> int | None:
        """Largest value of a variable in a world, everything undecided at its least; or None."""
        before, self._any = self._any, True
        try:
            return super().largest(world, variable)
        finally:
            self._any = before

    def corner(self, world: Bounds, point: tuple[int, ...]) -> LeastDemand:
        """The least demand; the shared row mended by a split that fits, if there is one."""
        corner = super().corner(world, point)
        at = point_at(world, corner, corner.experts)
        side = self.shared.side
        missing = side.least - linear_value(self.instance, self.demand, at, side.members)
        if missing <= 0 or not self._within(world, corner):
            return corner
        if missing >= SAFE_BYTES:
            self.is_exact = False
            return corner
        return self._mend_shared(world, corner, missing) or corner

    def largest_blocks(self, world: Bounds, pool: int) -> int | None:
        """By bisection, below what fits beside the least demands that leave the row broken."""
        corners = [corner for corner in self.corners(world) if self.fits(world, corner)]
        if not corners:
            return None
        multiple = self.instance.pools[pool].multiple
        ranges = [self._lows(index, world) for index in range(len(self.instance.fitted))]
        loose = [super(Split, self).corner(world, point) for point in product(*ranges)]
        tops = [self.blocks_in_rest(world, c, pool) for c in loose if self._within(world, c)]
        variable = Variable("blocks", pool)
        return multiple * largest_unbounded(
            lambda k: self.possible(self.at_least(world, variable, k * multiple)),
            max(corner.usable[pool] for corner in corners) // multiple,
            max(tops) // multiple,
        )

    # --- splits ---------------------------------------------------------------------------------

    def _mend_shared(self, world: Bounds, corner: LeastDemand, missing: int) -> LeastDemand | None:
        """A demand that mends the shared row and fits; with the fewest of the first pool."""
        (c, (_, pool)), _ = self.shared.first, self.shared.second
        multiple = self.instance.pools[pool].multiple
        held = corner.usable[pool]
        full = held + -(-missing // (c * multiple)) * multiple  # all of what is missing
        if self._any:
            guess = min(max(self._hint, held), full)
            guess -= (guess - held) % multiple
            mended = self._with(corner, missing, guess)
            if self._within(world, mended):
                return mended
        ends, taken = self._pages.between(held, full)
        fitting = np.flatnonzero(self._fit(world, corner, missing, ends, taken))
        if not len(fitting):
            return None
        at = int(fitting[0])
        self._hint = int(ends[at])
        if self._any:
            return self._with(corner, missing, self._hint)
        return self._fewest(world, corner, missing, int(ends[at - 1]) if at else held, self._hint)

    def _fewest(
        self, world: Bounds, corner: LeastDemand, missing: int, low: int, high: int
    ) -> LeastDemand:
        """The fewest of the first pool in (low, high], where all take the same pages."""
        multiple = self.instance.pools[self.shared.first[1].position].multiple
        spare = bisect_largest(
            lambda less: self._within(world, self._with(corner, missing, high - less * multiple)),
            0,
            (high - low) // multiple,
        )
        return self._with(corner, missing, high - spare * multiple)

    def _with(self, corner: LeastDemand, missing: int, blocks: int) -> LeastDemand:
        """The demand with so many blocks of the first pool, and the second's least beside them."""
        (c, (_, pool)), (d, (kind, index)) = self.shared.first, self.shared.second
        more = max(0, -(-(missing - c * (blocks - corner.usable[pool])) // d))
        usable = [*corner.usable]
        usable[pool] = blocks
        if kind == "experts":
            return corner._replace(usable=tuple(usable), experts=corner.experts + more)
        multiple = self.instance.pools[index].multiple
        usable[index] += -(-more // multiple) * multiple
        return corner._replace(usable=tuple(usable))

    def _fit(
        self,
        world: Bounds,
        corner: LeastDemand,
        missing: int,
        ends: Integers,
        taken: list[Integers],
    ) -> Flags:
        """Which of many values of the first pool fit beside the second's least."""
        (c, (_, pool)), (d, (kind, index)) = self.shared.first, self.shared.second
        more = np.maximum(0, -(-(missing - c * (ends - corner.usable[pool])) // d))
        if kind == "experts":
            held, most, multiple = (
                corner.experts,
                self.instance.experts and self.instance.experts.most,
                1,
            )
        else:
            figures = self.instance.pools[index]
            held, most, multiple = corner.usable[index], figures.most, figures.multiple
        second = held + -(-more // multiple) * multiple
        fits: Flags = second <= self._pages.second_most
        second = np.minimum(second, self._pages.second_most)
        if most is not None:
            fits &= second <= most
        first_most = self.instance.pools[pool].most
        if first_most is not None:
            fits &= ends <= first_most
        for (row, _), mine in zip(self._pages.rows, taken, strict=True):
            now = 0
            if row.pools:
                reserved = self.instance.pools[pool].reserved
                now = pool_bytes(corner.usable[pool] + reserved, row.pools[pool])
            rest = row.limit_bytes - self.used(row, world, corner) + now
            fits &= mine + self._pages.more(row, second, held) <= rest
        return fits
