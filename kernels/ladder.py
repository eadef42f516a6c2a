"""One residue class of a fitted capacity as a ladder: C = first + k L, everything linear in k.

With L a multiple of every block size, each cache's need is min(a + k s, cap): a window's blocks
grow until as many go stale. One rung is then a few multiplications a pool, and interpolation
finds the last rung that fits in a handful of them.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.bytes import most_blocks
from kvplan.kernels.need import ceil_div, stale_end
from kvplan.kernels.terms import FULL, LIVE, PEAK, CacheRule

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


class Room(NamedTuple):
    """Bytes that the growing pools may take in one row, and their buffers."""

    bytes: int
    buffers: tuple[tuple[int, int, int, int], ...]  # (step, reserved, block bytes, granule)


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
    start, step = int(ceil_div(first, t)), period // t
    if rule.kind == FULL:
        cap = UNBOUNDED
    elif rule.kind == LIVE:
        cap = start - int(stale_end(first - flight_tokens, rule)) + rule.sink_blocks
    elif rule.kind == PEAK:
        cap = rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1
    else:
        cap = int(ceil_div(rule.reach + (0 if rule.flight_per_batch else flight), t))
    return Rise(rule.groups * count, start, step, cap)


class Ladder:
    """The budget along one class."""

    def __init__(self, steps: tuple[Step, ...], rooms: tuple[Room, ...]) -> None:
        self.steps = steps
        self.rooms = rooms

    def excess(self, k: int) -> int:
        """Bytes by which rung k exceeds the tightest row; not above 0 where it fits."""
        usable = []
        for step in self.steps:
            raw = step.raw
            for times, start, slope, cap in step.rises:
                blocks = start + k * slope
                raw += times * (blocks if blocks < cap else cap)
            need = -(-raw * step.use_den // step.use_num)
            if need < step.least:
                need = step.least
            if step.multiple > 1:
                need = -(-need // step.multiple) * step.multiple
            if need > step.most:
                return _OVER
            usable.append(need)
        worst = -_OVER
        for room, buffers in self.rooms:
            for index, reserved, size, granule in buffers:
                room -= -(-(usable[index] + reserved) * size // granule) * granule
            if -room > worst:
                worst = -room
        return worst

    def climb(self, steps: int) -> int | None:
        """Largest k in [0, steps] that fits, or None; needs never fall along a class."""
        above = self.excess(steps)
        if above <= 0:
            return steps
        low, high = 0, steps
        guess = self._guess(steps)
        below = self.excess(guess)
        if below <= 0:
            low = guess
            next_above = self.excess(guess + 1)
            if next_above > 0:
                return guess
            low, below = guess + 1, next_above
        else:
            high, above, below = guess, below, self.excess(0)
            if below > 0:
                return None
        return self._between(low, below, high, above)

    def _guess(self, steps: int) -> int:
        """The last rung if every pool but one stayed as at the top: exact once windows are full."""
        usable = [self._blocks(step, steps) for step in self.steps]
        guess = steps - 1
        for number, step in enumerate(self.steps):
            slope = sum(rise.times * rise.step for rise in step.rises if rise.cap == UNBOUNDED)
            if slope:
                held = min(step.most, self._held_beside(number, usable))
                flat = step.raw + sum(
                    rise.times * (rise.start if rise.cap == UNBOUNDED else rise.cap)
                    for rise in step.rises
                )
                raw = held // step.multiple * step.multiple * step.use_num // step.use_den
                guess = min(guess, (raw - flat) // slope)
        return max(0, guess)

    def _held_beside(self, number: int, usable: list[int]) -> int:
        """Usable blocks of one pool that fit beside the others' in every row."""
        held = UNBOUNDED
        for room, buffers in self.rooms:
            mine = [entry for entry in buffers if entry[0] == number]
            for index, reserved, size, granule in buffers:
                if index != number:
                    room -= -(-(usable[index] + reserved) * size // granule) * granule
            if mine:
                pages = tuple((size, granule) for _, _, size, granule in mine)
                held = min(held, most_blocks(room, pages) - mine[0][1])
        return held

    def _between(self, low: int, below: int, high: int, above: int) -> int:
        """Interpolate between a rung that fits and one that does not."""
        interpolate = True
        while high - low > 1:
            width = high - low
            guess = low + width * -below // (above - below) if interpolate else low + width // 2
            guess = min(max(guess, low + 1), high - 1)
            excess = self.excess(guess)
            if excess <= 0:
                low, below = guess, excess
            else:
                high, above = guess, excess
            # Granules make steps that a line does not see: halve after a poor guess.
            interpolate = 4 * (high - low) <= width or not interpolate
        return low

    @staticmethod
    def _blocks(step: Step, k: int) -> int:
        """Usable blocks of a pool at rung k."""
        raw = step.raw
        for times, start, slope, cap in step.rises:
            raw += times * min(start + k * slope, cap)
        need = max(step.least, -(-raw * step.use_den // step.use_num))
        return -(-need // step.multiple) * step.multiple
