"""Proof on the host, before any array is touched, that no int64 product can overflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvplan.kernels.arrays.budget_layout import BudgetLayout, Layout
from kvplan.kernels.arrays.scenarios import RefusedError
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import POW2, PREFILL, BatchRequests, CacheRule, Instance
from kvplan.kernels.need import ceil_div
from kvplan.kernels.residues import live_period

SAFE = 1 << 61
"""Every figure stays below this, so that the sum of two is an int64."""


class Ranges(NamedTuple):
    """The largest figures over all scenarios."""

    limits: tuple[int, ...]  # bytes by budget, at most
    lowest_limit: int
    capacities: Mapping[int, int]  # tokens by fitted request
    counts: Mapping[int, int | None]  # requests by fitted request; None: bounded by the quota
    use: tuple[tuple[int, int], ...]  # by pool: least numerator, largest denominator
    given: tuple[tuple[int, int, int], ...]  # batch, capacity, count


class Limits:
    """Upper bounds of everything that the search may compute."""

    def __init__(self, layout: Layout, demand: Demand, ranges: Ranges) -> None:
        self.layout, self.demand, self.ranges = layout, demand, ranges
        self.instance: Instance = layout.instance
        self._period = live_period(self.instance)
        self.blocks = [self._most_blocks(pool) for pool in range(len(self.instance.pools))]

    def check(self) -> None:
        """Reject what may overflow.

        Raises
        ------
        RefusedError : some figure may reach 2^61.
        """
        experts = self.instance.experts
        bounding = [each for each in self.layout.budgets if each.layers and not each.lent]
        if experts is not None and experts.most is None and not bounding:
            raise RefusedError("expert slots that no quota bounds")
        usable = self._usable()
        for budget, limit in zip(self.layout.budgets, self.ranges.limits, strict=True):
            total = abs(limit) + abs(self.ranges.lowest_limit) + self._bytes(budget, usable)
            shares = [share.numerator for _, share in self.instance.fill_shares]
            self._refuse(total * max(shares, default=1), "bytes of a rank")

    def _refuse(self, figure: int, what: str) -> None:
        if figure >= SAFE:
            raise RefusedError(f"{what} may reach {figure}, more than 64-bit integers hold")

    def _usable(self) -> list[int]:
        """Most usable blocks by pool in any intermediate step."""
        raws = [self._raw(index, batch) for index, batch in enumerate(self.instance.batches)]
        copied = {
            term.variable.position
            for goal in self.instance.objectives
            for term in goal.members
            if term.variable.kind == "copies"
        }
        found = []
        for pool, rule in enumerate(self.instance.pools):
            num, den = self.ranges.use[pool]
            raw = max((each[pool] for each in raws), default=0)
            if copied:
                raw *= max(1, *self.blocks)
            self._refuse(max(raw, self.blocks[pool]) * den, f"need of pool {rule.name}")
            most = max(ceil_div(raw * den, num), self.blocks[pool], rule.least)
            found.append(most + rule.multiple + rule.reserved)
        return found

    def _bytes(self, budget: BudgetLayout, usable: list[int]) -> int:
        total = sum(usable[pool] * size + granule for pool, _, size, granule in budget.buffers)
        total += max(budget.staging, default=0) + max(budget.options)
        experts = self.instance.experts
        if budget.layers and experts is not None:
            slots = experts.most if experts.most is not None else self._most_slots()
            slots = max(slots, experts.least)
            self._refuse(slots * max(1, experts.lend_num), "expert slots")
            largest = max(size for _, size in experts.sizes)
            total += budget.layers * slots * largest + experts.granule
        return total

    def _most_blocks(self, pool: int) -> int:
        """Usable blocks that any budget can hold, and one more."""
        rule = self.instance.pools[pool]
        held = [
            max(0, limit) // sum(size for size, _ in budget.pools[pool])
            for budget, limit in zip(self.layout.budgets, self.ranges.limits, strict=True)
            if budget.pools and budget.pools[pool]
        ]
        if rule.most is not None:
            held.append(rule.most)
        return min(held, default=0) + 1

    def _most_slots(self) -> int:
        experts = self.instance.experts
        assert experts is not None
        least = min(size for _, size in experts.sizes)
        return 1 + min(
            max(0, limit) // (budget.layers * least)
            for budget, limit in zip(self.layout.budgets, self.ranges.limits, strict=True)
            if budget.layers and not budget.lent
        )

    def _raw(self, index: int, batch: BatchRequests) -> list[int]:
        """Most raw blocks by pool of a batch."""
        chunks = range(len(self.instance.chunks) if self.demand.uses_chunk else 1)
        fixed = [self.demand.given(index, chunk) for chunk in chunks]
        raw = [max(column) for column in zip(*fixed, strict=True)]
        requests = [(c, n) for b, c, n in self.ranges.given if b == index]
        for fitted in batch.fitted:
            count = self.ranges.counts[fitted]
            most = max(1, *self.blocks) if count is None else count
            requests.append((self.ranges.capacities[fitted], most))
        for rule in self.instance.caches:
            held = sum(self._own(rule, batch, capacity) * n for capacity, n in requests)
            raw[rule.pool] += held + self._own(rule, batch, batch.prefix_tokens)
        return raw

    def _own(self, rule: CacheRule, batch: BatchRequests, capacity: int) -> int:
        """No less than a request's blocks of one cache and any figure on the way to them."""
        flight = max(self.demand.flight(rule, at) for at in self._flights(rule))
        tokens = capacity + batch.prefix_tokens + rule.reach + flight + rule.rewind
        # Tokens are rounded up to blocks, and the search looks a few periods beyond a capacity.
        beyond = (rule.sink_blocks + 1) * rule.block_tokens + 4 * self._period
        self._refuse(tokens + beyond, "tokens of a request")
        num, den = rule.scratch or (1, 1)
        blocks = tokens // rule.block_tokens + rule.sink_blocks + rule.extra_blocks + 4
        return rule.groups * (blocks + rule.state_blocks) * max(1, num, den)

    def _flights(self, rule: CacheRule) -> Iterable[int]:
        return (0, len(self.instance.chunks) - 1) if rule.flight == PREFILL else (0,)


def refused_goals(instance: Instance) -> str | None:
    """What the batched search cannot answer, by name; None where it can."""
    if instance.constraints:
        return f"linear constraints ({len(instance.constraints)})"
    for batch in instance.batches:
        if batch.is_split(instance.fitted):
            return f"requests of some caches only (batch {batch.name})"
    layouts = [buffers for budget in instance.budgets for buffers in budget.pools]
    if any(granule == POW2 for buffers in layouts for _, granule in buffers):
        return "allocations rounded up to powers of two"
    if instance.fill_mix:
        return "fill by a mix"
    if instance.has_contexts:
        return "staging that follows a context"
    for goal in instance.objectives:
        if goal.single is None:
            return f"weighted goal {goal.label}"
    return None
