"""Worlds, the least that they demand, and whether that fits.

A *world* is what has been decided so far: lower bounds of everything that grows, a chosen option
of every choice, a range of chunks and of each fitted capacity. A world is possible when its least
demand fits in every row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from kvplan.kernels.bytes import expert_bytes, least_kept
from kvplan.kernels.capacity import CapacityGrid
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Budget, Buffers, Instance
from kvplan.kernels.need import stale_end, usable_for
from kvplan.kernels.worlds import Bounds, LeastDemand, pareto
from kvplan.models.immutable.lazy import cached_property

NEVER = 1 << 200  # blocks that no room holds
PRUNE_FROM = 4  # low points of a capacity; fewer are not worth comparing


class LeastDemands:
    """Least demands of one problem's worlds.

    Switches (class attributes; every setting gives the same answers)
    --------
    prunes : low points of a capacity that need no less than another are left out.
    """

    prunes = True

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.demand = Demand(instance)
        # Layouts are shared by rows and live as long as the instance, so their identity is a key.
        self._flat: dict[int, list[tuple[int, int, int, int]]] = {}
        self._least: dict[tuple[int, ...], tuple[int, ...]] = {}

    # Worked out when they are first used: a direct answer uses none of them.

    @cached_property
    def grids(self) -> list[CapacityGrid | None]:
        """Candidates of each fitted capacity; None for a count."""
        return [
            None if fitted.is_count else CapacityGrid(self.instance, index)
            for index, fitted in enumerate(self.instance.fitted)
        ]

    @cached_property
    def _limits(self) -> list[tuple[int, int]]:
        return [
            (i, pool.most) for i, pool in enumerate(self.instance.pools) if pool.most is not None
        ]

    @cached_property
    def _rows(self) -> list[tuple[Budget, bool]]:
        """Rows, and whether pools alone count there."""
        return [
            (row, not (row.staging or row.options or (row.layers and self.instance.experts)))
            for row in self.instance.budgets
        ]

    def worlds(self) -> list[Bounds]:
        """One undecided world for each combination of options."""
        instance = self.instance
        return [
            Bounds(
                low=tuple(fitted.least for fitted in instance.fitted),
                high=tuple(fitted.most for fitted in instance.fitted),
                chunk=0,
                chunk_most=len(instance.chunks) - 1,
                options=options,
                experts=instance.experts.least if instance.experts else 0,
                blocks=tuple(0 for _ in instance.pools),
                copies=tuple(0 for _ in instance.batches),
            )
            for options in product(*map(range, instance.choices))
        ]

    # --- least demands -------------------------------------------------------------------------

    def corners(self, world: Bounds) -> Iterator[LeastDemand]:
        """Every least demand of a world that may be the smallest, pool limits not yet checked."""
        ranges = [self._lows(index, world) for index in range(len(self.instance.fitted))]
        for point in product(*ranges):
            yield self.corner(world, point)

    def corner(self, world: Bounds, point: tuple[int, ...]) -> LeastDemand:
        """The least demand of a world at given values of the fitted variables."""
        capacity, count = self.values_at(point)
        usable = self.demand.floors(world.chunk, capacity, count)
        for index, least in enumerate(world.blocks):
            if least > usable[index]:
                usable[index] = least
        if any(world.copies):
            self._raise_for_copies(world, capacity, count, usable)
        return LeastDemand(capacity, count, tuple(usable), world.experts)

    def values_at(self, point: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Capacities and counts by fitted request, at values of the fitted variables."""
        pairs = [*zip(self.instance.fitted, point, strict=True)]
        capacities = tuple([f.capacity if f.is_count else value for f, value in pairs])
        counts = tuple([value if f.is_count else f.requests for f, value in pairs])
        return capacities, counts

    def _lows(self, index: int, world: Bounds) -> tuple[int, ...]:
        """Values of a fitted variable among which its least needs stand."""
        grid, low, high = self.grids[index], world.low[index], world.high[index]
        if grid is None or high is None or low == high:
            return (low,)
        points = grid.lows(low, high)
        if len(points) < PRUNE_FROM or not self.prunes:
            return points
        key = (index, low, high, world.chunk if self.demand.uses_chunk else 0)
        if key not in self._least:
            self._least[key] = pareto({p: self._needs(index, p, world.chunk) for p in points})
        return self._least[key]

    def _needs(self, index: int, capacity: int, chunk: int) -> tuple[int, ...]:
        """What a capacity needs, and what it keeps alive of a prefix that the batch shares."""
        request = self.instance.fitted[index]
        kept = [
            -min(shared, stale_end(capacity - request.flight, rule))
            for rule, shared, _ in self.demand.couplings[request.batch]
        ]
        return (*self.demand.own(index, capacity, chunk), *kept)

    def _raise_for_copies(
        self, world: Bounds, capacity: tuple[int, ...], count: tuple[int, ...], usable: list[int]
    ) -> None:
        """k copies need ceil(k x raw / u) usable blocks of each pool; of nothing there are none."""
        for batch, copies in enumerate(world.copies):
            if copies:
                raws = self.demand.raw(batch, world.chunk, capacity, count)
                for pool, raw in enumerate(raws):
                    usable[pool] = max(usable[pool], self.blocks_for_copies(pool, copies * raw))
                if not any(raws):
                    usable[0] = NEVER

    def blocks_for_copies(self, pool: int, raw: int) -> int:
        """Usable blocks, a legal multiple, that hold a raw need."""
        instance = self.instance.pools[pool]
        need = usable_for(raw, instance.use_num, instance.use_den)
        return -(-need // instance.multiple) * instance.multiple

    # --- budgets -------------------------------------------------------------------------------

    def used(self, row: Budget, world: Bounds, corner: LeastDemand) -> int:
        """Bytes that a row's variables take, the least experts kept during prefill."""
        return self._pool_bytes(row, corner.usable) + self.other_bytes(row, world, corner.experts)

    def _pool_bytes(self, row: Budget, usable: tuple[int, ...]) -> int:
        total = 0
        for pool, reserved, size, granule in self._buffers(row.pools):
            total += -(-(usable[pool] + reserved) * size // granule) * granule
        return total

    def _buffers(self, pools: tuple[Buffers, ...]) -> list[tuple[int, int, int, int]]:
        """(pool, reserved blocks, block bytes, granule) of every buffer of a layout."""
        known = self._flat.get(id(pools))
        if known is None:
            known = self._flat[id(pools)] = [
                (index, self.instance.pools[index].reserved, size, granule)
                for index, buffers in enumerate(pools)
                for size, granule in buffers
            ]
        return known

    def other_bytes(self, row: Budget, world: Bounds, slots: int) -> int:
        """Bytes of everything in a row but the pools."""
        total = 0
        if row.layers and self.instance.experts is not None:
            if row.lent:
                slots = least_kept(slots, self.instance.experts)
            total = expert_bytes(slots, row.layers, self.instance.experts)
        if row.staging:
            total += row.staging[world.chunk]
        for option, choice in zip(world.options, row.options, strict=True):
            total += choice[option]
        return total

    def fits(self, world: Bounds, corner: LeastDemand) -> bool:
        """Whether every pool limit and every row holds at a least demand."""
        usable = corner.usable
        for pool, most in self._limits:
            if usable[pool] > most:
                return False
        for row, is_plain in self._rows:
            used = self._pool_bytes(row, usable)
            if (
                used + (0 if is_plain else self.other_bytes(row, world, corner.experts))
                > row.limit_bytes
            ):
                return False
        return True

    def possible(self, world: Bounds) -> bool:
        """Whether some least demand of the world fits."""
        return any(self.fits(world, corner) for corner in self.corners(world))
