"""One tile of scenarios: its columns as arrays, and what a demand takes of every budget."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.arrays.arrays import Array, Arrays, Integers
from kvplan.kernels.arrays.budget_layout import BudgetLayout, Layout
from kvplan.kernels.arrays.needs import Needs
from kvplan.kernels.arrays.scenarios import Given, Scenarios
from kvplan.kernels.arrays.search.array_bytes import (
    expert_bytes,
    least_kept,
    most_blocks,
    pool_bytes,
    rounded_up,
)
from kvplan.kernels.arrays.search.state import State
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Buffers
from kvplan.kernels.need import ceil_div


class Tile:
    """Arrays of a part of the scenarios, axes [start, one a fitted capacity, scenario].

    Parameters
    ----------
    limits : of every budget of the layout, each [scenario].
    """

    def __init__(
        self,
        arrays: Arrays,
        layout: Layout,
        demand: Demand,
        part: Scenarios,
        limits: Sequence[Array],
    ) -> None:
        self.arrays, self.layout, self.instance = arrays, layout, layout.instance
        self.number = part.number
        self.limits = [self.lift(limit) for limit in limits]
        self.options: list[Integers] = [self.by_start(budget.options) for budget in layout.budgets]
        given = tuple(
            Given(g.batch, self.lift(g.capacity), self.lift(g.history), self.lift(g.count))
            for g in part.given
        )
        self.needs = Needs(arrays, demand, given)
        self.uses_chunk = demand.uses_chunk
        self.use = [self._use(part, pool) for pool in range(len(self.instance.pools))]
        self.capacity: list[Integers] = [fitted.capacity for fitted in self.instance.fitted]
        self.count: list[Integers] = [fitted.requests for fitted in self.instance.fitted]
        self.undecided = self._undecided(part)

    def lift(self, column: Array) -> Array:
        """A column [scenario] (or [1]) with all axes."""
        shape = (1,) * (self.layout.axes - 1) + (-1,)
        return self.arrays.xp.reshape(self.arrays.ints(column), shape)

    def by_start(self, values: Sequence[int]) -> Integers:
        """A figure of every combination of options along the first axis."""
        if min(values) == max(values):
            return values[0]
        shape = (-1,) + (1,) * (self.layout.axes - 1)
        return self.arrays.xp.reshape(self.arrays.ints(values), shape)

    def _use(self, part: Scenarios, pool: int) -> tuple[Integers, Integers]:
        if part.use is None:
            return self.instance.pools[pool].use_num, self.instance.pools[pool].use_den
        return self.lift(part.use[0][..., pool]), self.lift(part.use[1][..., pool])

    def _undecided(self, part: Scenarios) -> State:
        """Nothing decided; what a scenario asks for in place of the instance's figures."""
        instance = self.instance
        high: list[Integers | None] = []
        decided: list[bool] = []
        for index, fitted in enumerate(instance.fitted):
            capacity, count = part.capacities.get(index), part.counts.get(index)
            asked = count if fitted.is_count else capacity
            if fitted.is_count and capacity is not None:
                self.capacity[index] = self.lift(capacity)
            if not fitted.is_count and count is not None:
                self.count[index] = self.lift(count)
            high.append(fitted.most if asked is None else self.lift(asked))
            decided.append(asked is None and fitted.least == fitted.most)
        last = len(instance.chunks) - 1
        return State(
            low=tuple(fitted.least for fitted in instance.fitted),
            high=tuple(high),
            decided=tuple(decided),
            chunk=0,
            chunk_most=last if part.chunks is None else self.lift(part.chunks),
            experts=instance.experts.least if instance.experts else 0,
            blocks=tuple(0 for _ in instance.pools),
            copies=tuple(0 for _ in instance.batches),
        )

    # --- demand --------------------------------------------------------------------------------

    def usable(
        self,
        state: State,
        capacity: Sequence[Integers],
        count: Sequence[Integers],
        chunk: Integers,
    ) -> list[Integers]:
        """Usable blocks by pool: the floors, what is decided, and what copies take."""
        raws = self.needs.largest(capacity, count, chunk)
        found = []
        for pool, raw in enumerate(raws):
            legal = self.legal(pool, raw)
            least = rounded_up(self.instance.pools[pool].least, self.instance.pools[pool].multiple)
            found.append(self.arrays.greatest(legal, least, state.blocks[pool]))
        for batch, copies in enumerate(state.copies):
            if not isinstance(copies, int):
                raw = self.needs.batch(batch, capacity, count, chunk)
                found = self.raised(found, raw, copies)
        return found

    def legal(self, pool: int, raw: Integers) -> Integers:
        """ceil(raw / resume utilization), rounded up to the pool's multiple."""
        num, den = self.use[pool]
        is_whole = isinstance(num, int) and num == den
        need = raw if is_whole else ceil_div(raw * den, num)
        return rounded_up(need, self.instance.pools[pool].multiple)

    def raised(
        self, usable: list[Integers], raw: list[Integers], copies: Integers
    ) -> list[Integers]:
        """Usable blocks that hold k copies of a batch as well."""
        return [
            self.arrays.greatest(held, self.legal(pool, copies * blocks))
            for pool, (held, blocks) in enumerate(zip(usable, raw, strict=True))
        ]

    # --- budgets -------------------------------------------------------------------------------

    def fits(self, usable: Sequence[Integers], chunk: Integers, experts: Integers) -> Array:
        """Whether every pool limit and every budget holds."""
        fit = None
        for budget, limit, options in zip(
            self.layout.budgets, self.limits, self.options, strict=True
        ):
            rest = limit - options - self.taken(budget, usable, chunk, experts)
            fit = (rest >= 0) if fit is None else fit & (rest >= 0)
        for pool, blocks in zip(self.instance.pools, usable, strict=True):
            if pool.most is not None:
                fit = fit & (blocks <= pool.most)
        return fit

    def rests(self, usable: Sequence[Integers], chunk: Integers, experts: Integers) -> list[Array]:
        """What every budget has left, the least experts kept during prefill."""
        return [
            limit - options - self.taken(budget, usable, chunk, experts)
            for budget, limit, options in zip(
                self.layout.budgets, self.limits, self.options, strict=True
            )
        ]

    def taken(
        self, budget: BudgetLayout, usable: Sequence[Integers], chunk: Integers, experts: Integers
    ) -> Integers:
        """Bytes that everything in a budget takes, the least experts kept during prefill."""
        total: Integers = 0
        for pool, buffers in enumerate(budget.pools):
            if buffers:
                reserved = self.instance.pools[pool].reserved
                total = total + pool_bytes(usable[pool] + reserved, buffers)
        if budget.layers and self.instance.experts is not None:
            if budget.lent:
                experts = least_kept(self.arrays, experts, self.instance.experts)
            total = total + expert_bytes(self.arrays, experts, budget.layers, self.instance.experts)
        if budget.staging:
            total = total + self.arrays.table(budget.staging, chunk)
        return total

    def most_blocks(self, limit: Array, buffers: Buffers) -> Array:
        """Largest number of blocks within a limit; -1 where it is negative."""
        return most_blocks(self.arrays, limit, buffers)

    def most_in(self, pool: int, rests: Sequence[Array], usable: Integers) -> Integers:
        """Usable blocks of one pool that fit beside everything else, which fits."""
        rule = self.instance.pools[pool]
        limit: Integers | None = rule.most
        for budget, rest in zip(self.layout.budgets, rests, strict=True):
            if budget.pools and budget.pools[pool]:
                mine = pool_bytes(usable + rule.reserved, budget.pools[pool])
                most = self.most_blocks(rest + mine, budget.pools[pool]) - rule.reserved
                limit = most if limit is None else self.arrays.smallest(limit, most)
        assert limit is not None
        return limit if rule.multiple == 1 else limit // rule.multiple * rule.multiple

    def settle_options(self, chosen: Array) -> None:
        """Keep one combination of options a scenario."""
        self.options = [self.arrays.table(budget.options, chosen) for budget in self.layout.budgets]
