"""One residue class of a fitted capacity as a ladder: C = first + k L, everything linear in k.

With L a multiple of every block size, each cache's need is min(a + k s, cap): a window's blocks
grow until as many go stale. One rung is then a few multiplications a pool, and interpolation
finds the last rung that fits in a handful of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.instance import FULL, Buffers, CacheRule, Instance
from kvplan.kernels.line import full_blocks

UNBOUNDED = 1 << 200  # a cap that never binds
_OVER = 1 << 200  # excess of a pool beyond its max_blocks


class Rise(NamedTuple):
    """times x min(start + k step, cap) blocks."""

    times: int
    start: int
    step: int
    cap: int


class Step(NamedTuple):
    """A pool that grows with the capacity."""

    pool: int
    raw: int  # blocks that do not depend on k
    rises: tuple[Rise, ...]
    least: int  # usable blocks, from everything else
    use_num: int
    use_den: int
    multiple: int
    most: int
    reserved: int = 0

    def blocks(self, k: int) -> int:
        """Usable blocks at rung k."""
        raw = self.raw
        for times, start, slope, cap in self.rises:
            blocks = start + k * slope
            raw += times * (blocks if blocks < cap else cap)
        need = -(-raw * self.use_den // self.use_num)
        if need < self.least:
            need = self.least
        return need if self.multiple == 1 else -(-need // self.multiple) * self.multiple


def rise_of(
    rule: CacheRule, first: int, flight_tokens: int, flight: int, period: int, count: int
) -> Rise:
    """Blocks of one cache along a class, extra blocks apart.

    Parameters
    ----------
    first : capacity at k = 0; its history is `first - flight_tokens`.
    flight : tokens in flight of the cache.
    """
    t = rule.block_tokens
    is_open = rule.kind == FULL
    cap = UNBOUNDED if is_open else full_blocks(rule, first, flight_tokens, flight)
    return Rise(rule.groups * count, -(-first // t), period // t, cap)


class Ladder:
    """The budget along one class.

    Parameters
    ----------
    steps : the pools that grow.
    rows : for each row, the buffers of each step's pool [row][step].
    last : the highest rung.
    """

    def __init__(
        self, steps: tuple[Step, ...], rows: tuple[tuple[Buffers, ...], ...], last: int
    ) -> None:
        self.steps = steps
        self.rows = rows
        self.last = last

    def rooms(self, instance: Instance, usable: Sequence[int], rooms: Sequence[int]) -> list[int]:
        """What is left of each row's room for the growing pools beside the other pools."""
        growing = {step.pool for step in self.steps}
        held = [
            0 if index in growing else blocks + instance.pools[index].reserved
            for index, blocks in enumerate(usable)
        ]
        return [
            room - _bytes(held, row.pools) if row.pools else room
            for row, room in zip(instance.budgets, rooms, strict=True)
        ]

    def excess(self, k: int, rooms: list[int]) -> int:
        """Bytes by which rung k exceeds the tightest row; not above 0 where it fits.

        Parameters
        ----------
        rooms : bytes that the growing pools may take, by row.
        """
        held = []
        for step in self.steps:
            need = step.blocks(k)
            if need > step.most:
                return _OVER
            held.append(need + step.reserved)
        return max([_bytes(held, row) - room for row, room in zip(self.rows, rooms, strict=True)])

    def climb(self, rooms: list[int], low: int = 0, high: int | None = None) -> int | None:
        """Largest rung in [low, high] that fits, or None; needs never fall along a class."""
        if high is None:
            high = self.last
        above = self.excess(high, rooms)
        if above <= 0:
            return high
        below = self.excess(low, rooms)
        return None if below > 0 else self._between(low, below, high, above, rooms)

    def _between(self, low: int, below: int, high: int, above: int, rooms: list[int]) -> int:
        """Interpolate between a rung that fits and one that does not."""
        interpolate = True
        while high - low > 1:
            width = high - low
            guess = low + width * -below // (above - below) if interpolate else low + width // 2
            guess = min(max(guess, low + 1), high - 1)
            excess = self.excess(guess, rooms)
            if excess <= 0:
                low, below = guess, excess
            else:
                high, above = guess, excess
            # Granules make steps that a line does not see: halve after a poor guess.
            interpolate = 4 * (high - low) <= width or not interpolate
        return low


def _bytes(held: list[int], row: tuple[Buffers, ...]) -> int:
    """Bytes of allocated blocks [step] in one row."""
    return sum(map(pool_bytes, held, row))
