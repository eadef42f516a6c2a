"""The nested search: exact for ordered goals, a bracket for everything else.

Goals raise one bound of a world (kernels.corners) after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from itertools import product

from kvplan.kernels.capacity import bisect_largest, largest_unbounded
from kvplan.kernels.climb import climb, is_ladder
from kvplan.kernels.corners import LeastDemands
from kvplan.kernels.direct import Direct, is_direct
from kvplan.kernels.filling import raise_pool
from kvplan.kernels.instance import Instance, Variable
from kvplan.kernels.worlds import Bounds, LeastDemand, put
from kvplan.models.immutable.lazy import cached_property


class Search(LeastDemands):
    """Searches one problem in plain integers.

    Switches (class attributes; every setting gives the same answers)
    --------
    climbs : fitted capacities by ladders where their needs allow it, else by bisection.
    fills_in_order : a tail of pool goals by one pass, else goal by goal.
    goes_direct : a problem that `is_direct` is answered without worlds.
    """

    climbs = True
    fills_in_order = True
    goes_direct = True
    is_exact = True
    """Whether a world is possible just where `possible` says so."""
    weighs = True
    """Whether goals over several wide variables are tried."""

    @cached_property
    def direct(self) -> Direct | None:
        """The straight way to the answer, where there is one."""
        if not self.goes_direct or not is_direct(self.instance):
            return None
        return Direct(self.instance, self.demand)

    @cached_property
    def _ladders(self) -> list[bool]:
        return [
            not fitted.is_count and is_ladder(self.instance, index)
            for index, fitted in enumerate(self.instance.fitted)
        ]

    def rebased(self, instance: Instance) -> Search:
        """The same search for instance that differ in the rooms of their rows alone."""
        twin = copy(self)
        twin.instance = instance
        twin._rows = [
            (row, is_plain) for row, (_, is_plain) in zip(instance.budgets, self._rows, strict=True)
        ]
        return twin

    # --- the largest value of one variable -----------------------------------------------------

    def largest(self, world: Bounds, variable: Variable) -> int | None:
        """Largest value of a variable in a world, everything undecided at its least; or None.

        The value of a choice is minus the index of its option.
        """
        if variable.kind == "blocks":
            return self.largest_blocks(world, variable.position)
        if variable.kind == "choice":
            return -world.options[variable.position] if self.possible(world) else None
        if variable.kind == "capacity":
            return self._largest_capacity(world, variable.position)
        if not self.possible(world):
            return None
        if variable.kind == "prefill":
            index = bisect_largest(
                lambda chunk: self.possible(world._replace(chunk=chunk)),
                world.chunk,
                world.chunk_most,
            )
            return self.instance.chunks[index]
        low, high = self.range_of(world, variable)
        return largest_unbounded(
            lambda value: self.possible(self.at_least(world, variable, value)), low, high
        )

    def range_of(self, world: Bounds, variable: Variable) -> tuple[int, int | None]:
        """Bounds of a variable in a world; None where only the quota bounds it."""
        if variable.kind in ("capacity", "count"):
            return world.low[variable.position], world.high[variable.position]
        if variable.kind == "experts":
            assert self.instance.experts is not None
            return world.experts, self.instance.experts.most
        if variable.kind == "prefill":
            return self.instance.chunks[world.chunk], self.instance.chunks[world.chunk_most]
        if variable.kind == "blocks":
            return world.blocks[variable.position], self.instance.pools[variable.position].most
        if variable.kind == "choice":
            return -world.options[variable.position], -world.options[variable.position]
        return world.copies[variable.position], None

    def at_least(self, world: Bounds, variable: Variable, value: int) -> Bounds:
        """The world with a variable bounded from below (a choice is left as it is)."""
        kind, index = variable
        if kind in ("capacity", "count"):
            return world._replace(low=put(world.low, index, max(value, world.low[index])))
        if kind == "experts":
            return world._replace(experts=max(world.experts, value))
        if kind == "blocks":
            multiple = self.instance.pools[index].multiple
            value = max(-(-value // multiple) * multiple, world.blocks[index])
            return world._replace(blocks=put(world.blocks, index, value))
        if kind == "copies":
            return world._replace(copies=put(world.copies, index, max(value, world.copies[index])))
        if kind == "prefill":
            chunk = next(i for i, tokens in enumerate(self.instance.chunks) if tokens >= value)
            return world._replace(chunk=max(world.chunk, chunk))
        return world

    def settled(self, world: Bounds, variable: Variable, value: int) -> Bounds:
        """The world with a variable at the largest value that it can have."""
        world = self.at_least(world, variable, value)
        if variable.kind in ("capacity", "count"):
            return world._replace(high=put(world.high, variable.position, value))
        if variable.kind == "prefill":
            return world._replace(chunk_most=world.chunk)
        return world

    def _largest_capacity(self, world: Bounds, index: int) -> int | None:
        grid, low, high = self.grids[index], world.low[index], world.high[index]
        assert grid is not None
        assert high is not None
        ranges = [
            (0,) if other == index else self._lows(other, world)
            for other in range(len(self.instance.fitted))
        ]
        points = list(product(*ranges))

        def fits(capacity: int) -> bool:
            return any(
                self.fits(world, self.corner(world, put(point, index, capacity)))
                for point in points
            )

        if self.climbs and len(points) == 1 and not any(world.copies) and self._ladders[index]:
            return high if fits(high) else climb(self, world, index, points[0])
        if not grid.has_many_classes or not self._is_boundable(index):
            return grid.largest(fits, low, high)
        return grid.largest(
            fits,
            low,
            high,
            may_fit=partial(self._fits_bounded, self.bounded(index, 0), world, index, points),
            sure_fits=partial(self._fits_bounded, self.bounded(index, 1), world, index, points),
        )

    def _is_boundable(self, index: int) -> bool:
        """Whether monotone bounds of a fitted capacity's needs are known."""
        prefix = self.instance.batches[self.instance.fitted[index].batch].prefix_tokens
        return self.climbs and not prefix and not any(r.scratch for r in self.instance.caches)

    def bounded(self, index: int, above: int) -> Search:
        """The same search with monotone bounds for one fitted capacity's windows."""
        twin = copy(self)
        twin.demand = self.demand.bounded(index, above)
        return twin

    @staticmethod
    def _fits_bounded(
        nested: Search, world: Bounds, index: int, points: list[tuple[int, ...]], capacity: int
    ) -> bool:
        return any(
            nested.fits(world, nested.corner(world, put(point, index, capacity)))
            for point in points
        )

    def blocks_in_order(
        self, world: Bounds, corner: LeastDemand, pools: Sequence[int]
    ) -> LeastDemand:
        """Pools raised one after the other to what fits beside the others (which fit)."""
        rests = [row.limit_bytes - self.used(row, world, corner) for row in self.instance.budgets]
        usable = [*corner.usable]
        for pool in pools:
            raise_pool(self.instance, pool, usable, rests)
        return corner._replace(usable=tuple(usable))

    def largest_blocks(self, world: Bounds, pool: int) -> int | None:
        """Inverse of the byte rows, over every least demand of the others."""
        best: int | None = None
        for corner in self.corners(world):
            if self.fits(world, corner):
                blocks = self.blocks_in_rest(world, corner, pool)
                best = blocks if best is None else max(best, blocks)
        return best

    def blocks_in_rest(self, world: Bounds, corner: LeastDemand, pool: int) -> int:
        """Usable blocks of one pool that fit beside the others' (which fit)."""
        return self.blocks_in_order(world, corner, (pool,)).usable[pool]
