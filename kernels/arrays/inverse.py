"""Blocks that fit in a room by table: one read where several buffers would need a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from kvplan.kernels.arrays.arrays import Array, Arrays
from kvplan.kernels.arrays.budget import floor_units, most_blocks
from kvplan.kernels.arrays.layout import RowLayout, unit_of
from kvplan.kernels.instance import Buffers

MOST_CELLS = 1 << 20
"""8 MiB a table."""


class Inverse(NamedTuple):
    """Most blocks by whole units of room [unit]."""

    table: Array
    unit: int  # bytes

    def most(self, arrays: Arrays, room: Array) -> Array:
        """Largest n whose bytes are at most `room`; -1 for a room below zero."""
        cell = floor_units(room, self.unit)
        last = self.table.shape[0] - 1
        blocks = self.table[arrays.smallest(arrays.greatest(cell, 0), last)]
        return arrays.pick(cell < 0, -1, blocks)


Inverses = Mapping[Buffers, Inverse]


def inverses_of(
    arrays: Arrays, rows: Iterable[RowLayout], rooms: Sequence[Array], number: int
) -> dict[Buffers, Inverse]:
    """Tables of the pools with several buffers, where there are more scenarios than cells."""
    largest: dict[Buffers, int] = {}
    for row, room in zip(rows, rooms, strict=True):
        for buffers in row.pools:
            if len(buffers) > 1:
                most = max(0, int(arrays.xp.max(room)))
                largest[buffers] = max(most, largest.get(buffers, 0))
    found = {}
    for buffers, most in largest.items():
        unit = gcd(*(unit_of(size, granule) for size, granule in buffers))
        cells = most // unit + 1
        if cells <= min(MOST_CELLS, number):
            room = arrays.ints(arrays.xp.arange(cells, device=arrays.device)) * unit
            found[buffers] = Inverse(most_blocks(arrays, room, buffers), unit)
    return found
