"""The nested search: exact for ordered goals, a bracket for everything else.

A *world* is what has been decided so far: lower bounds of everything that grows, a chosen option
of every choice, a range of chunks and of each fitted capacity. A world is possible when its least
demand fits in every row; goals raise one bound after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import product

from kvplan.kernels.bytes import expert_bytes, least_kept, more_blocks, pool_bytes
from kvplan.kernels.capacity import CapacityGrid, bisect_largest, largest_unbounded
from kvplan.kernels.climb import climb, is_ladder
from kvplan.kernels.demand import Demand
from kvplan.kernels.direct import Direct, is_direct
from kvplan.kernels.need import usable_for
from kvplan.kernels.terms import Buffers, Row, Terms, Variable
from kvplan.kernels.worlds import Corner, World, pareto, put

NEVER = 1 << 200  # blocks that no room holds
PRUNE_FROM = 4  # low points of a capacity; fewer are not worth comparing


class Nested:
    """Searches one problem in plain integers.

    Switches (class attributes; every setting gives the same answers)
    --------
    climbs : fitted capacities by ladders where their needs allow it, else by bisection.
    fills_in_order : a tail of pool goals by one pass, else goal by goal.
    prunes : low points of a capacity that need no less than another are left out.
    goes_direct : a problem that `is_direct` is answered without worlds.
    """

    climbs = True
    fills_in_order = True
    prunes = True
    goes_direct = True
    is_exact = True
    """Whether a world is possible just where `possible` says so."""
    weighs = True
    """Whether goals over several wide variables are tried."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.demand = Demand(terms)
        # Layouts are shared by rows and live as long as the terms, so their identity is a key.
        self._flat: dict[int, list[tuple[int, int, int, int]]] = {}
        self._least: dict[tuple[int, ...], tuple[int, ...]] = {}

    # Worked out when they are first used: a direct answer uses none of them.

    @cached_property
    def direct(self) -> Direct | None:
        """The straight way to the answer, where there is one."""
        if not self.goes_direct or not is_direct(self.terms):
            return None
        return Direct(self.terms, self.demand)

    @cached_property
    def grids(self) -> list[CapacityGrid | None]:
        """Candidates of each fitted capacity; None for a count."""
        return [
            None if fitted.is_count else CapacityGrid(self.terms, index)
            for index, fitted in enumerate(self.terms.fitted)
        ]

    @cached_property
    def _ladders(self) -> list[bool]:
        return [
            not fitted.is_count and is_ladder(self.terms, index)
            for index, fitted in enumerate(self.terms.fitted)
        ]

    @cached_property
    def _limits(self) -> list[tuple[int, int]]:
        return [(i, pool.most) for i, pool in enumerate(self.terms.pools) if pool.most is not None]

    @cached_property
    def _rows(self) -> list[tuple[Row, bool]]:
        """Rows, and whether pools alone count there."""
        return [
            (row, not (row.staging or row.options or (row.layers and self.terms.experts)))
            for row in self.terms.rows
        ]

    def rebased(self, terms: Terms) -> Nested:
        """The same search for terms that differ in the rooms of their rows alone."""
        twin = copy(self)
        twin.terms = terms
        twin._rows = [
            (row, is_plain) for row, (_, is_plain) in zip(terms.rows, self._rows, strict=True)
        ]
        return twin

    def worlds(self) -> list[World]:
        """One undecided world for each combination of options."""
        terms = self.terms
        return [
            World(
                low=tuple(fitted.least for fitted in terms.fitted),
                high=tuple(fitted.most for fitted in terms.fitted),
                chunk=0,
                chunk_most=len(terms.chunks) - 1,
                options=options,
                experts=terms.experts.least if terms.experts else 0,
                blocks=tuple(0 for _ in terms.pools),
                copies=tuple(0 for _ in terms.batches),
            )
            for options in product(*map(range, terms.choices))
        ]

    # --- least demands -------------------------------------------------------------------------

    def corners(self, world: World) -> Iterator[Corner]:
        """Every least demand of a world that may be the smallest, pool limits not yet checked."""
        ranges = [self._lows(index, world) for index in range(len(self.terms.fitted))]
        for point in product(*ranges):
            yield self.corner(world, point)

    def corner(self, world: World, point: tuple[int, ...]) -> Corner:
        """The least demand of a world at given values of the fitted variables."""
        capacity, count = self.values_at(point)
        usable = self.demand.floors(world.chunk, capacity, count)
        for index, least in enumerate(world.blocks):
            if least > usable[index]:
                usable[index] = least
        if any(world.copies):
            self._raise_for_copies(world, capacity, count, usable)
        return Corner(capacity, count, tuple(usable), world.experts)

    def values_at(self, point: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Capacities and counts by fitted request, at values of the fitted variables."""
        pairs = [*zip(self.terms.fitted, point, strict=True)]
        capacities = tuple([f.capacity if f.is_count else value for f, value in pairs])
        counts = tuple([value if f.is_count else f.requests for f, value in pairs])
        return capacities, counts

    def _lows(self, index: int, world: World) -> tuple[int, ...]:
        """Values of a fitted variable among which its least needs stand."""
        grid, low, high = self.grids[index], world.low[index], world.high[index]
        if grid is None or high is None or low == high:
            return (low,)
        points = grid.lows(low, high)
        coupled = self.demand.couplings[self.terms.fitted[index].batch]
        if len(points) < PRUNE_FROM or coupled or not self.prunes:
            return points
        key = (index, low, high, world.chunk if self.demand.uses_chunk else 0)
        if key not in self._least:
            needs = {point: self.demand.own(index, point, world.chunk) for point in points}
            self._least[key] = pareto(needs)
        return self._least[key]

    def _raise_for_copies(
        self, world: World, capacity: tuple[int, ...], count: tuple[int, ...], usable: list[int]
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
        terms = self.terms.pools[pool]
        need = usable_for(raw, terms.use_num, terms.use_den)
        return -(-need // terms.multiple) * terms.multiple

    # --- budgets -------------------------------------------------------------------------------

    def used(self, row: Row, world: World, corner: Corner) -> int:
        """Bytes that a row's variables take, the least experts kept during prefill."""
        return self._pool_bytes(row, corner.usable) + self.other_bytes(row, world, corner.experts)

    def _pool_bytes(self, row: Row, usable: tuple[int, ...]) -> int:
        total = 0
        for pool, reserved, size, granule in self._buffers(row.pools):
            total += -(-(usable[pool] + reserved) * size // granule) * granule
        return total

    def _buffers(self, pools: tuple[Buffers, ...]) -> list[tuple[int, int, int, int]]:
        """(pool, reserved blocks, block bytes, granule) of every buffer of a layout."""
        known = self._flat.get(id(pools))
        if known is None:
            known = self._flat[id(pools)] = [
                (index, self.terms.pools[index].reserved, size, granule)
                for index, buffers in enumerate(pools)
                for size, granule in buffers
            ]
        return known

    def other_bytes(self, row: Row, world: World, slots: int) -> int:
        """Bytes of everything in a row but the pools."""
        total = 0
        if row.layers and self.terms.experts is not None:
            if row.lent:
                slots = least_kept(slots, self.terms.experts)
            total = expert_bytes(slots, row.layers, self.terms.experts)
        if row.staging:
            total += row.staging[world.chunk]
        for option, choice in zip(world.options, row.options, strict=True):
            total += choice[option]
        return total

    def fits(self, world: World, corner: Corner) -> bool:
        """Whether every pool limit and every row holds at a least demand."""
        usable = corner.usable
        for pool, most in self._limits:
            if usable[pool] > most:
                return False
        for row, is_plain in self._rows:
            used = self._pool_bytes(row, usable)
            if used + (0 if is_plain else self.other_bytes(row, world, corner.experts)) > row.room:
                return False
        return True

    def possible(self, world: World) -> bool:
        """Whether some least demand of the world fits."""
        return any(self.fits(world, corner) for corner in self.corners(world))

    # --- the largest value of one variable -----------------------------------------------------

    def largest(self, world: World, variable: Variable) -> int | None:
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
            return self.terms.chunks[index]
        low, high = self.range_of(world, variable)
        return largest_unbounded(
            lambda value: self.possible(self.at_least(world, variable, value)), low, high
        )

    def range_of(self, world: World, variable: Variable) -> tuple[int, int | None]:
        """Bounds of a variable in a world; None where only the quota bounds it."""
        if variable.kind in ("capacity", "count"):
            return world.low[variable.position], world.high[variable.position]
        if variable.kind == "experts":
            assert self.terms.experts is not None
            return world.experts, self.terms.experts.most
        if variable.kind == "prefill":
            return self.terms.chunks[world.chunk], self.terms.chunks[world.chunk_most]
        if variable.kind == "blocks":
            return world.blocks[variable.position], self.terms.pools[variable.position].most
        if variable.kind == "choice":
            return -world.options[variable.position], -world.options[variable.position]
        return world.copies[variable.position], None

    def at_least(self, world: World, variable: Variable, value: int) -> World:
        """The world with a variable bounded from below (a choice is left as it is)."""
        kind, index = variable
        if kind in ("capacity", "count"):
            return world._replace(low=put(world.low, index, max(value, world.low[index])))
        if kind == "experts":
            return world._replace(experts=max(world.experts, value))
        if kind == "blocks":
            multiple = self.terms.pools[index].multiple
            value = max(-(-value // multiple) * multiple, world.blocks[index])
            return world._replace(blocks=put(world.blocks, index, value))
        if kind == "copies":
            return world._replace(copies=put(world.copies, index, max(value, world.copies[index])))
        if kind == "prefill":
            chunk = next(i for i, tokens in enumerate(self.terms.chunks) if tokens >= value)
            return world._replace(chunk=max(world.chunk, chunk))
        return world

    def settled(self, world: World, variable: Variable, value: int) -> World:
        """The world with a variable at the largest value that it can have."""
        world = self.at_least(world, variable, value)
        if variable.kind in ("capacity", "count"):
            return world._replace(high=put(world.high, variable.position, value))
        if variable.kind == "prefill":
            return world._replace(chunk_most=world.chunk)
        return world

    def _largest_capacity(self, world: World, index: int) -> int | None:
        grid, low, high = self.grids[index], world.low[index], world.high[index]
        assert grid is not None
        assert high is not None
        ranges = [
            (0,) if other == index else self._lows(other, world)
            for other in range(len(self.terms.fitted))
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
        prefix = self.terms.batches[self.terms.fitted[index].batch].prefix_tokens
        return self.climbs and not prefix and not any(r.scratch for r in self.terms.caches)

    def bounded(self, index: int, above: int) -> Nested:
        """The same search with monotone bounds for one fitted capacity's windows."""
        twin = copy(self)
        twin.demand = self.demand.bounded(index, above)
        return twin

    @staticmethod
    def _fits_bounded(
        nested: Nested, world: World, index: int, points: list[tuple[int, ...]], capacity: int
    ) -> bool:
        return any(
            nested.fits(world, nested.corner(world, put(point, index, capacity)))
            for point in points
        )

    def blocks_in_order(self, world: World, corner: Corner, pools: Sequence[int]) -> Corner:
        """Pools raised one after the other to what fits beside the others (which fit)."""
        rows = [row for row in self.terms.rows if row.pools]
        rests = [row.room - self.used(row, world, corner) for row in rows]
        usable = [*corner.usable]
        for pool in pools:
            terms = self.terms.pools[pool]
            held = usable[pool] + terms.reserved
            limits = [
                more_blocks(held, rest, row.pools[pool]) - terms.reserved
                for row, rest in zip(rows, rests, strict=True)
                if row.pools[pool]
            ]
            if terms.most is not None:
                limits.append(terms.most)
            top = min(limits) // terms.multiple * terms.multiple
            if top > usable[pool]:
                usable[pool] = top
                rests = [
                    rest
                    + pool_bytes(held, row.pools[pool])
                    - pool_bytes(top + terms.reserved, row.pools[pool])
                    for row, rest in zip(rows, rests, strict=True)
                ]
        return corner._replace(usable=tuple(usable))

    def largest_blocks(self, world: World, pool: int) -> int | None:
        """Inverse of the byte rows, over every least demand of the others."""
        best: int | None = None
        for corner in self.corners(world):
            if self.fits(world, corner):
                blocks = self.blocks_in_rest(world, corner, pool)
                best = blocks if best is None else max(best, blocks)
        return best

    def blocks_in_rest(self, world: World, corner: Corner, pool: int) -> int:
        """Usable blocks of one pool that fit beside the others' (which fit)."""
        return self.blocks_in_order(world, corner, (pool,)).usable[pool]
