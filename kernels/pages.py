"""The bytes of two variables that share a linear row, over all ways to split it."""

from __future__ import annotations

import numpy as np

from kvplan.kernels.bytes import most_blocks, pool_bytes
from kvplan.kernels.exchange.arrays import SAFE, SAFE_BYTES, Integers, UnsuitedError
from kvplan.kernels.exchange.costs import block_counts, paged, slots_bytes
from kvplan.kernels.instance import Budget, Variable
from kvplan.kernels.nested import Search

MOST_ENDS = 1 << 14
"""Page ends of a pool that are compared; 0 leaves such rows unproven."""

Member = tuple[int, Variable]
"""Coefficient and variable."""


class Pages:
    """Where the bytes of a shared row's first pool rise, and the most that rooms hold."""

    def __init__(self, nested: Search, first: Member, second: Member) -> None:
        self.nested, self.first, self.second = nested, first, second
        instance, (c, (_, pool)), (d, _) = nested.instance, first, second
        self.is_known = False
        self.second_most = self._most_of_second()
        rooms = [row for row in instance.budgets if row.pools and row.pools[pool]]
        if (
            not rooms
            or max(c, d) >= SAFE
            or max(row.limit_bytes for row in instance.budgets) >= SAFE_BYTES
        ):
            return
        figures = instance.pools[pool]
        most = (
            min(most_blocks(row.limit_bytes, row.pools[pool]) for row in rooms) - figures.reserved
        )
        if figures.most is not None:  # it may lie between two page ends
            most = min(most, figures.most)
        self.most = max(0, most // figures.multiple * figures.multiple)
        if self.most >= SAFE:
            return
        try:
            self._ends = block_counts(nested, pool, 0, self.most)
        except UnsuitedError:
            return
        ends = self._ends + figures.reserved
        self.rows = [
            (row, paged(ends, row.pools, pool) + 0 * ends)
            for row in instance.budgets
            if row.pools or row.layers
        ]
        self.is_known = len(self._ends) <= MOST_ENDS

    def between(self, low: int, high: int) -> tuple[Integers, list[Integers]]:
        """Page ends in [low, high), and `high` where rooms hold it; and their bytes by row."""
        start, end = np.searchsorted(self._ends, (low, high))
        found = self._ends[start:end]
        taken = [each[start:end] for _, each in self.rows]
        if high > self.most:
            return found, taken
        pool = self.first[1].position
        allocated = high + self.nested.instance.pools[pool].reserved
        last = [pool_bytes(allocated, row.pools[pool]) if row.pools else 0 for row, _ in self.rows]
        return np.append(found, high), [
            np.append(each, more) for each, more in zip(taken, last, strict=True)
        ]

    def more(self, row: Budget, second: Integers, held: int) -> Integers:
        """Bytes that the second member takes in a row beyond those of `held`."""
        kind, index = self.second[1]
        values = np.append(second, held)
        if kind == "experts":
            taken = slots_bytes(self.nested, row, values) + 0 * values
        else:
            reserved = self.nested.instance.pools[index].reserved
            taken = paged(values + reserved, row.pools, index) + 0 * values
        grown: Integers = taken[:-1] - taken[-1]
        return grown

    def _most_of_second(self) -> int:
        (kind, index), experts = self.second[1], self.nested.instance.experts
        found = [SAFE]
        for row in self.nested.instance.budgets:
            if kind == "blocks" and row.pools and row.pools[index]:
                found.append(most_blocks(row.limit_bytes, row.pools[index]))
            elif kind == "experts" and row.layers and experts is not None:
                least = min(size for _, size in experts.sizes)
                found.append(row.limit_bytes // max(1, row.layers * least))
        return max(0, min(found))
