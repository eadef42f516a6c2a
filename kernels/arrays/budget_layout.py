"""An instance compiled for many scenarios: merged budgets with limits, combinations of options."""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import Any, NamedTuple

from kvplan.kernels.arrays.arrays import Array, Arrays
from kvplan.kernels.arrays.scenarios import RefusedError
from kvplan.kernels.instance import Budget, Buffers, ExpertRule, Instance

SAFE_ROOM = 1 << 62
"""Bytes; what `limits` allows is less, and a quota of 64 bits may be added."""


class BudgetLayout(NamedTuple):
    """What one budget holds, whatever the scenario."""

    buffers: tuple[tuple[int, int, int, int], ...]  # (pool, reserved, block bytes, granule)
    pools: tuple[Buffers, ...]
    layers: int
    lent: bool
    staging: tuple[int, ...]  # bytes by chunk index, or nothing
    options: tuple[int, ...]  # bytes by start: one combination of options each
    members: tuple[Budget, ...]  # the budgets that share this left side
    unit: int  # all bytes are multiples of it; 0 where the budget holds nothing


class Layout:
    """The part of the instance that is the same in every scenario."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.starts = tuple(product(*map(range, instance.choices)))
        groups: dict[tuple[object, ...], list[Budget]] = {}
        for budget in instance.every_budget:
            key = (budget.pools, budget.layers, budget.lent, budget.staging, budget.options)
            groups.setdefault(key, []).append(budget)
        self.budgets = tuple(self._budget(members) for members in groups.values())
        self.quotas = _base_quotas(instance)
        self.axes = 2 + sum(not fitted.is_count for fitted in instance.fitted)

    def _budget(self, members: list[Budget]) -> BudgetLayout:
        instance, budget = self.instance, members[0]
        layers = budget.layers if instance.experts is not None else 0
        options = tuple(
            sum(choice[o] for o, choice in zip(start, budget.options, strict=True))
            for start in self.starts
        )
        buffers = tuple(
            (index, instance.pools[index].reserved, size, granule)
            for index, pool in enumerate(budget.pools)
            for size, granule in pool
        )
        unit = gcd(*budget.staging, *options, *(unit_of(size, g) for _, _, size, g in buffers))
        if layers and instance.experts is not None:
            unit = gcd(unit, expert_unit(instance.experts, layers))
        return BudgetLayout(
            buffers,
            budget.pools,
            layers,
            budget.lent,
            budget.staging,
            options,
            tuple(members),
            unit,
        )

    def limits(self, arrays: Arrays, quotas: Any) -> list[Array]:
        """Room of every budget, the least over its members: each [scenario], or [1] if none varies.

        Raises
        ------
        RefusedError : a limit, or the fixed consumers alone, may leave 64 bits.
        """
        for each in self.instance.every_budget:
            if (
                abs(each.limit_bytes - (0 if quotas is None else self.quotas[each.rank]))
                >= SAFE_ROOM
            ):
                raise RefusedError(f"bytes on rank {each.rank} leave 64-bit integers")
        limits = []
        for budget in self.budgets:
            limit: Any = None
            for member in budget.members:
                mine: Any = member.limit_bytes
                if quotas is not None:
                    # Consumers stay: a rank's limit moves with its quota, byte for byte.
                    mine = arrays.ints(quotas[..., member.rank]) + (
                        member.limit_bytes - self.quotas[member.rank]
                    )
                limit = mine if limit is None else arrays.smallest(limit, mine)
            limits.append(arrays.ints([limit]) if isinstance(limit, int) else limit)
        return limits

    def refuse_quotas(self) -> None:
        """A rank with a physical share of its own has no single quota to vary.

        Raises
        ------
        RefusedError : some rank has several quotas, by memory readings.
        """
        for budget in self.instance.every_budget:
            if budget.quota != self.quotas[budget.rank]:
                text = f"rank {budget.rank}: its quota comes from readings with modelled headroom"
                raise RefusedError(text)


def unit_of(size: int, granule: int) -> int:
    """Largest number of which every allocation of a buffer is a multiple."""
    return size if size % granule == 0 else granule


def expert_unit(experts: ExpertRule, layers: int) -> int:
    """The same of expert slots on one rank."""
    unit = gcd(*(size for _, size in experts.sizes)) * layers
    return unit_of(unit, experts.granule)


def _base_quotas(instance: Instance) -> dict[int, int]:
    """Quota of every rank: that of its first budget."""
    quotas: dict[int, int] = {}
    for budget in instance.every_budget:
        quotas.setdefault(budget.rank, budget.quota)
    return quotas
