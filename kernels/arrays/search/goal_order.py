"""All goals of a tile in order, then fill, then the rest: every decision of every scenario."""

from __future__ import annotations

from kvplan.kernels.arrays.arrays import Array, Integers
from kvplan.kernels.arrays.results import Fits
from kvplan.kernels.arrays.search.array_bytes import expert_bytes, least_kept, pool_bytes
from kvplan.kernels.arrays.search.search import Search
from kvplan.kernels.arrays.search.state import State, put
from kvplan.kernels.arrays.staircase import Staircase
from kvplan.kernels.instance import Variable


class Goals:
    """The order of `ordered.solve` over arrays, for plain goals."""

    def __init__(self, search: Search, first: Staircase | None = None) -> None:
        self.first = first
        self.search, self.tile, self.arrays = search, search.tile, search.arrays
        self.instance = search.instance
        self.chosen: Integers = 0
        self.open_starts = len(self.tile.layout.starts) > 1

    def solve(self) -> Fits:
        """Decide everything."""
        state = self.tile.undecided
        alive = self.search.possible(state)
        feasible = self.arrays.xp.any(alive, axis=0, keepdims=True)
        goals = self.instance.objectives
        for number, goal in enumerate(goals):
            variable = goal.single
            assert variable is not None
            if number >= self.instance.fill_from:
                alive = self._settle_options(alive)
                tail = [each.single for each in goals[number:]]
                if all(each is not None and each.kind == "blocks" for each in tail):
                    pools = [each.position for each in tail if each is not None]
                    state = self._fill_in_order(state, pools)
                    break
            reached = self._reached(state, variable, number)
            best = self._best(alive, reached)
            state, alive = self._settled(state, variable, best), alive & (reached == best)
        self._settle_options(alive)
        return self._finish(state, feasible)

    def _reached(self, state: State, variable: Variable, number: int) -> Integers:
        """The largest value of one variable for every combination of options."""
        if variable.kind == "choice":
            values = [-start[variable.position] for start in self.tile.layout.starts]
            return self.tile.by_start(values) if self.open_starts else values[0]
        if number == 0 and self.first is not None:
            return self.first.largest(self.search)
        return self.search.largest(state, variable)

    def _best(self, alive: Array, reached: Integers) -> Array:
        """The largest value over the combinations that are left: [1, ..., scenario]."""
        lowest = -(1 << 60)
        values = self.arrays.pick(alive, reached, lowest)
        return self.arrays.xp.max(values, axis=0, keepdims=True)

    def _settled(self, state: State, variable: Variable, best: Array) -> State:
        """Keep the lower bound where nothing fits, so that figures stay small."""
        kind, index = variable
        if kind == "choice":
            return state
        if kind in ("capacity", "count"):
            return state.fixed(index, self.arrays.greatest(best, state.low[index]))
        if kind == "prefill":
            chunk = self.arrays.greatest(best, state.chunk)
            return state._replace(chunk=chunk, chunk_most=chunk)
        if kind == "experts":
            return state._replace(experts=self.arrays.greatest(best, state.experts))
        if kind == "blocks":
            blocks = self.arrays.greatest(best, state.blocks[index])
            return state._replace(blocks=put(state.blocks, index, blocks))
        copies = self.arrays.greatest(best, state.copies[index])
        return state._replace(copies=put(state.copies, index, copies))

    def _settle_options(self, alive: Array) -> Array:
        """Keep the first combination that is left of every scenario."""
        if not self.open_starts:
            return alive
        self.open_starts = False
        xp = self.arrays.xp
        self.chosen = xp.argmax(self.arrays.pick(alive, 1, 0), axis=0, keepdims=True)
        self.tile.settle_options(self.chosen)
        return xp.any(alive, axis=0, keepdims=True)

    def _fill_in_order(self, state: State, pools: list[int]) -> State:
        """Pools raised one after the other to what fits beside the others."""
        usable = self.search.usable(state)
        rests = self.tile.rests(usable, state.chunk, state.experts)
        blocks = list(state.blocks)
        for pool in pools:
            most = self.tile.most_in(pool, rests, usable[pool])
            rests = self._taken(pool, rests, usable[pool], most)
            blocks[pool] = most
        return state._replace(blocks=tuple(blocks))

    def _taken(
        self, pool: int, rests: list[Array], before: Integers, after: Integers
    ) -> list[Array]:
        """What the budgets have left when a pool goes from one count to another."""
        reserved = self.instance.pools[pool].reserved
        found = []
        for budget, rest in zip(self.tile.layout.budgets, rests, strict=True):
            if budget.pools and budget.pools[pool]:
                buffers = budget.pools[pool]
                rest = rest + pool_bytes(before + reserved, buffers)
                rest = rest - pool_bytes(after + reserved, buffers)
            found.append(rest)
        return found

    # --- the end -------------------------------------------------------------------------------

    def _finish(self, state: State, feasible: Array) -> Fits:
        """Fill by shares, keep experts in prefill, and read every decision."""
        usable = self.search.usable(state)
        if self.instance.fill_shares:
            usable = self._share_out(state, usable)
        kept = self._most_kept(state, usable)
        capacity, count = self.search.demands(state)
        starts = self.tile.layout.starts
        options = [
            self.arrays.table([start[choice] for start in starts], self.chosen)
            for choice in range(len(self.instance.choices))
        ]
        fits = Fits(
            feasible=feasible,
            capacities=self._columns(capacity, feasible),
            counts=self._columns(count, feasible),
            chunk=self._column(state.chunk, feasible),
            options=self._columns(options, feasible),
            experts=self._column(state.experts, feasible),
            kept=self._column(kept, feasible),
            usable=self._columns(usable, feasible),
        )
        flat = self.arrays.xp.reshape(feasible, (-1,))
        flat = self.arrays.xp.broadcast_to(flat, (self.tile.number,))
        return Fits(flat, *list(vars(fits).values())[1:])

    def _column(self, value: Integers, feasible: Array) -> Array:
        """[scenario], 0 where nothing fits."""
        flat = self.arrays.xp.reshape(self.arrays.pick(feasible, value, 0), (-1,))
        return self.arrays.xp.broadcast_to(flat, (self.tile.number,))

    def _columns(self, values: list[Integers], feasible: Array) -> Array:
        """[scenario, value]: a view on [value, scenario]."""
        xp = self.arrays.xp
        if not values:
            return (
                xp.reshape(self.arrays.ints([0] * 0), (0, 0))
                if not self.tile.number
                else (xp.zeros((self.tile.number, 0), dtype=xp.int64, device=self.arrays.device))
            )
        return xp.stack([self._column(value, feasible) for value in values], axis=0).T

    def _share_out(self, state: State, usable: list[Integers]) -> list[Integers]:
        """Usable blocks within floor(share x (quota less all but the share pools)), pool by pool.

        Reserved blocks stand outside. A floor above its share stays, and then later pools take what
        is left.
        """
        rests = self.tile.rests(usable, state.chunk, state.experts)
        shared = list(rests)
        for pool, _ in self.instance.fill_shares:
            shared = self._taken(pool, shared, usable[pool], 0)
        for pool, share in self.instance.fill_shares:
            rule = self.instance.pools[pool]
            cap = self.tile.most_in(pool, rests, usable[pool])
            for budget, rest in zip(self.tile.layout.budgets, shared, strict=True):
                if budget.pools and budget.pools[pool]:
                    held_bytes = rest * share.numerator // share.denominator
                    held_bytes = held_bytes + pool_bytes(rule.reserved, budget.pools[pool])
                    most = self.tile.most_blocks(held_bytes, budget.pools[pool]) - rule.reserved
                    cap = self.arrays.smallest(cap, most)
            cap = cap // rule.multiple * rule.multiple
            blocks = self.arrays.greatest(usable[pool], cap)
            rests = self._taken(pool, rests, usable[pool], blocks)
            usable = list(put(tuple(usable), pool, blocks))
        return usable

    def _most_kept(self, state: State, usable: list[Integers]) -> Integers:
        """Most expert slots that can stay during prefill beside everything else."""
        experts = self.instance.experts
        if experts is None:
            return 0
        low = least_kept(self.arrays, state.experts, experts)
        rests = self.tile.rests(usable, state.chunk, state.experts)
        limits = [
            (rest + expert_bytes(self.arrays, low, budget.layers, experts), budget.layers)
            for budget, rest in zip(self.tile.layout.budgets, rests, strict=True)
            if budget.lent and budget.layers
        ]

        def fits(kept: Array) -> Array:
            held = kept >= 0
            for limit, layers in limits:
                held = held & (expert_bytes(self.arrays, kept, layers, experts) <= limit)
            return held

        return self.search.bisect(fits, low, state.experts)
