"""Instance compiled for many scenarios: rows with equal left sides, rooms by scenario, worlds."""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import Any, NamedTuple

from kvplan.kernels.arrays.arrays import Array, Arrays
from kvplan.kernels.arrays.scenarios import RefusedError
from kvplan.kernels.instance import Budget, Buffers, ExpertRule, Instance

SAFE_ROOM = 1 << 62
"""Bytes; what `limits` allows is less, and a quota of 64 bits may be added."""


class RowLayout(NamedTuple):
    """What one budget holds, whatever the scenario."""

    buffers: tuple[tuple[int, int, int, int], ...]  # (pool, reserved, block bytes, granule)
    pools: tuple[Buffers, ...]
    layers: int
    lent: bool
    staging: tuple[int, ...]  # bytes by chunk index, or nothing
    options: tuple[int, ...]  # bytes by world: one combination of options each
    members: tuple[Budget, ...]  # the rows that share this left side
    unit: int  # all bytes are multiples of it; 0 where the row holds nothing


class Layout:
    """The part of the instance that no scenario changes."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.worlds = tuple(product(*map(range, instance.choices)))
        groups: dict[tuple[object, ...], list[Budget]] = {}
        for row in instance.every_budget:
            key = (row.pools, row.layers, row.lent, row.staging, row.options)
            groups.setdefault(key, []).append(row)
        self.rows = tuple(self._row(members) for members in groups.values())
        self.quotas = _base_quotas(instance)
        self.axes = 2 + sum(not fitted.is_count for fitted in instance.fitted)

    def _row(self, members: list[Budget]) -> RowLayout:
        instance, row = self.instance, members[0]
        layers = row.layers if instance.experts is not None else 0
        options = tuple(
            sum(choice[o] for o, choice in zip(world, row.options, strict=True))
            for world in self.worlds
        )
        buffers = tuple(
            (index, instance.pools[index].reserved, size, granule)
            for index, pool in enumerate(row.pools)
            for size, granule in pool
        )
        unit = gcd(*row.staging, *options, *(unit_of(size, g) for _, _, size, g in buffers))
        if layers and instance.experts is not None:
            unit = gcd(unit, expert_unit(instance.experts, layers))
        return RowLayout(
            buffers, row.pools, layers, row.lent, row.staging, options, tuple(members), unit
        )

    def rooms(self, arrays: Arrays, quotas: Any) -> list[Array]:
        """Room of every row, the least over its members: each [scenario], or [1] if none varies.

        Raises
        ------
        RefusedError : a room, or the fixed consumers alone, may leave 64 bits.
        """
        for each in self.instance.every_budget:
            if (
                abs(each.limit_bytes - (0 if quotas is None else self.quotas[each.rank]))
                >= SAFE_ROOM
            ):
                raise RefusedError(f"bytes on rank {each.rank} leave 64-bit integers")
        rooms = []
        for row in self.rows:
            room: Any = None
            for member in row.members:
                mine: Any = member.limit_bytes
                if quotas is not None:
                    # Consumers stay: a rank's room moves with its quota, byte for byte.
                    mine = arrays.ints(quotas[..., member.rank]) + (
                        member.limit_bytes - self.quotas[member.rank]
                    )
                room = mine if room is None else arrays.smallest(room, mine)
            rooms.append(arrays.ints([room]) if isinstance(room, int) else room)
        return rooms

    def refuse_quotas(self) -> None:
        """A rank with a physical share of its own has no single quota to vary.

        Raises
        ------
        RefusedError : some rank has several quotas, by memory readings.
        """
        for row in self.instance.every_budget:
            if row.quota != self.quotas[row.rank]:
                text = f"rank {row.rank}: its quota comes from readings with modelled headroom"
                raise RefusedError(text)


def unit_of(size: int, granule: int) -> int:
    """Largest number of which every allocation of a buffer is a multiple."""
    return size if size % granule == 0 else granule


def expert_unit(experts: ExpertRule, layers: int) -> int:
    """The same of expert slots on one rank."""
    unit = gcd(*(size for _, size in experts.sizes)) * layers
    return unit_of(unit, experts.granule)


def _base_quotas(instance: Instance) -> dict[int, int]:
    """Quota of every rank: that of its first row."""
    quotas: dict[int, int] = {}
    for row in instance.every_budget:
        quotas.setdefault(row.rank, row.quota)
    return quotas
