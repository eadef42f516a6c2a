"""One residue class of a fitted capacity as a ladder: C = first + k L, everything linear in k.

With L a multiple of every block size, each cache's need is min(a + k s, cap): a window's blocks
grow until as many go stale. One rung is then a few multiplications a pool. Where windows are full
and one pool alone grows, the last rung that fits is a division; else interpolation finds it.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from kvplan.kernels.bytes import most_blocks
from kvplan.kernels.terms import FULL, LIVE, PEAK, Buffers, CacheRule

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
    start, step = -(-first // t), period // t
    if rule.kind == FULL:
        cap = UNBOUNDED
    elif rule.kind == LIVE:
        cap = start - (first - flight_tokens + 1 - rule.reach) // t + rule.sink_blocks
    elif rule.kind == PEAK:
        cap = rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1
    else:
        cap = -(-(rule.reach + (0 if rule.flight_per_batch else flight)) // t)
    return Rise(rule.groups * count, start, step, cap)


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

    def climb(self, rooms: list[int]) -> int | None:
        """Largest rung in [0, last] that fits, or None; needs never fall along a class."""
        low, high = 0, self.last
        line = self._line
        if line is not None:
            k = line.last(rooms)
            if k >= self.last:
                return self.last
            if k >= line.full_from:
                return k
            # With less than all windows full more may fit, but not where they are.
            low, high = max(0, k), line.full_from
        above = self.excess(high, rooms)
        if above <= 0:
            return high
        below = self.excess(low, rooms)
        return None if below > 0 else self._between(low, below, high, above, rooms)

    @cached_property
    def _line(self) -> _Line | None:
        """The one pool that grows on to the last rung, if every window is full before it."""
        growing, full_from = [], 0
        for number, step in enumerate(self.steps):
            for _, start, slope, cap in step.rises:
                if cap == UNBOUNDED:
                    growing.append(number)
                else:
                    full_from = max(full_from, -((start - cap) // slope))
        if len(set(growing)) != 1 or full_from > self.last:
            return None
        mine = growing[0]
        held = []
        for number, step in enumerate(self.steps):
            blocks = 0 if number == mine else step.blocks(self.last)
            if blocks > step.most:
                return None
            held.append(blocks + step.reserved if number != mine else 0)
        rows = tuple([(_bytes(held, row), row[mine]) for row in self.rows])
        return _Line(self.steps[mine], rows, full_from)

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


class _Line(NamedTuple):
    """The one pool that still grows once all windows are full."""

    step: Step
    rows: tuple[tuple[int, Buffers], ...]  # bytes of the others, its own buffers
    full_from: int  # rung from which on all windows are full

    def last(self, rooms: list[int]) -> int:
        """The last rung that fits if the others are full; -1 for none."""
        step = self.step
        held = step.most
        for (others, buffers), room in zip(self.rows, rooms, strict=True):
            rest = room - others
            if buffers:
                held = min(held, most_blocks(rest, buffers) - step.reserved)
            elif rest < 0:
                return -1
        held -= held % step.multiple
        if held < step.least:
            return -1
        flat, slope = step.raw, 0
        for times, start, rise, cap in step.rises:
            is_open = cap == UNBOUNDED
            flat += times * (start if is_open else cap)
            slope += times * rise if is_open else 0
        return max(-1, (held * step.use_num // step.use_den - flat) // slope)


def _bytes(held: list[int], row: tuple[Buffers, ...]) -> int:
    """Bytes of allocated blocks [step] in one row."""
    total = 0
    for blocks, buffers in zip(held, row, strict=True):
        for size, granule in buffers:
            total += -(-blocks * size // granule) * granule
    return total
