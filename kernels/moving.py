"""One variable moves, everything else is decided: its pools' blocks and the bytes by layout.

What no value of the variable moves is folded into constants once; limits are no part of it, so
one object serves a problem under any quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from operator import le, ne
from typing import NamedTuple

from kvplan.kernels.bytes import most_blocks, pool_bytes
from kvplan.kernels.evaluate import Evaluator
from kvplan.kernels.instance import made
from kvplan.kernels.largest import Sample, largest
from kvplan.kernels.need import NeedTerm, blocks

_MOST_KNOWN = 4096  # values that are kept
_MOST_DOUBLINGS = 80


def differing(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """Positions at which two sequences of one length differ."""
    return [*compress(range(len(a)), map(ne, a, b))]


class Evaluated(NamedTuple):
    """What a value takes, whatever the limits."""

    blocks: tuple[int, ...]  # allocated, by moving pool
    bytes: tuple[int, ...]  # by layout
    is_legal: bool  # no pool exceeds its max_blocks


MovingPool = tuple[int, int, Sequence[NeedTerm], int]
"""A pool whose raw need is a base and the sum of terms, and the usable blocks of all else."""


class Moving:
    """Blocks and bytes by value of one variable.

    Parameters
    ----------
    pools : those that the variable moves: (pool, base, terms, least).
    usable : blocks by pool; those of pools that do not move count.
    flight : C - H of a capacity.
    chunk : its index, which contexts follow.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        pools: Sequence[MovingPool],
        usable: Sequence[int],
        flight: int = 0,
        chunk: int = 0,
    ) -> None:
        self._evaluator = evaluator
        self._pools, self.flight, self._still, self._chunk = pools, flight, usable, chunk
        self._rows, still, found = [], list(usable), evaluator.places
        if evaluator.contexts:
            found = evaluator.places_at(chunk)
        for pool, raw, terms, least in pools:
            _, reserved, _, most, multiple, num, den = evaluator.rules[pool]
            places = found[pool]
            self._rows.append((raw, terms, least, reserved, most, multiple, num, den, places))
            still[pool] = -reserved
        taken, legal = tuple(evaluator.pool_bytes(still, chunk)), evaluator.within_limits(still)
        self._none = Evaluated((0,) * len(pools), taken, legal)
        self._known: dict[int, Evaluated] = {}

    def replaced(self, bound: Callable[[NeedTerm], NeedTerm]) -> Moving:
        """The same with other terms, for example with bounds of them."""
        pools = [
            (pool, base, [*map(bound, terms)], least) for pool, base, terms, least in self._pools
        ]
        return Moving(self._evaluator, pools, self._still, self.flight, self._chunk)

    def at(self, value: int) -> Evaluated:
        """Blocks and bytes at a value."""
        return self._known.get(value) or self._evaluate(value, self._none, range(len(self._pools)))

    def _near(self, value: int, base: Evaluated) -> Evaluated:
        """The same, sooner where many pools are as they are in `base`, which is legal."""
        return self._known.get(value) or self._evaluate(value, base, range(len(self._pools)))

    def _between(self, value: int, low: Sample, high: Sample) -> Evaluated:
        """The same between two samples of a class: pools that are equal in both stand still."""
        known = self._known.get(value)
        if known is None:
            base = Evaluated(low.blocks, low.bytes, is_legal=True)
            known = self._evaluate(value, base, differing(low.blocks, high.blocks))
        return known

    def _evaluate(self, value: int, base: Evaluated, slots: Sequence[int]) -> Evaluated:
        """Some pools at a value, the others as they are in `base`."""
        history, held, taken, legal = value - self.flight, [*base[0]], [*base[1]], base[2]
        for slot in slots:
            raw, terms, least, reserved, most, multiple, num, den, places = self._rows[slot]
            for term in terms:
                raw += blocks(term, value, history)
            need = -(-raw * den // num)
            if need < least:
                need = least
            if multiple > 1:
                need = -(-need // multiple) * multiple
            if most is not None and need > most:
                legal = False
            need, before = need + reserved, held[slot]
            if need == before:
                continue
            held[slot] = need
            for layout, buffers in places:
                taken[layout] += pool_bytes(need, buffers)
                if before:
                    taken[layout] -= pool_bytes(before, buffers)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        found = self._known[value] = made(Evaluated, (tuple(held), tuple(taken), legal))
        return found

    def _sample(self, rests: Sequence[int], at: int, evaluated: Evaluated) -> Sample:
        """A value under limits, as the sample of a step."""
        held, taken, legal = evaluated
        return made(Sample, (at, legal and all(map(le, taken, rests)), held, taken))

    def fits(self, rests: Sequence[int], value: int) -> bool:
        """Whether a value fits.

        Parameters
        ----------
        rests : bytes by layout.
        """
        return self._sample(rests, 0, self.at(value)).fits

    def largest(
        self, rests: Sequence[int], first: int, period: int, steps: int | None
    ) -> int | None:
        """The last of first, first + period, ... that fits; None where the first does not.

        Parameters
        ----------
        rests : bytes by layout.
        steps : how many follow the first; None: nothing but the rests bounds them.
        """

        def probe(step: int) -> Sample:
            return self._sample(rests, step, self.at(first + step * period))

        def between(step: int, low: Sample, high: Sample) -> Sample:
            return self._sample(rests, step, self._between(first + step * period, low, high))

        if steps is None:
            if not probe(0).fits:
                return None
            steps = next(
                (1 << n for n in range(_MOST_DOUBLINGS) if not probe(1 << n).fits),
                1 << _MOST_DOUBLINGS,
            )
        high = probe(steps)
        if high.fits:
            return first + steps * period
        # Windows fill up early, so most pools are as at the top; and no limit moves the middle.
        top, half = self.at(first + steps * period), first + steps // 2 * period
        near = self._near(half, top if top.is_legal else self._none)
        low = middle = self._sample(rests, steps // 2, near)
        if not middle.fits:
            low = probe(0)
            if not low.fits:
                return None
        guess = partial(self._guess, rests, first, period)
        return first + largest(between, low, high, guess, middle).at * period

    def usable(self, value: int) -> tuple[int, ...]:
        """Usable blocks of every pool at a value."""
        usable = list(self._still)
        for (pool, _, _, _), held in zip(self._pools, self.at(value).blocks, strict=True):
            usable[pool] = held - self._evaluator.reserved[pool]
        return tuple(usable)

    def _guess(
        self, rests: Sequence[int], first: int, period: int, a: Sample, b: Sample
    ) -> int | None:
        """The last step that fits if what grew from a to b grows in a straight line."""
        grown = differing(a.blocks, b.blocks)
        if len(grown) == 1:
            return self._inverted(rests, first, period, a, b, grown[0])
        span = b.at - a.at
        found = [
            a.at + (rest - taken) * span // (more - taken)
            for rest, taken, more in zip(rests, a.bytes, b.bytes, strict=True)
            if more > taken and more > rest
        ]
        for slot in grown:
            _, _, _, reserved, most, *_ = self._rows[slot]
            if most is not None:
                held, more = a.blocks[slot], b.blocks[slot]
                found.append(a.at + (most + reserved - held) * span // (more - held))
        return min(found, default=None)

    def _inverted(
        self, rests: Sequence[int], first: int, period: int, a: Sample, b: Sample, slot: int
    ) -> int | None:
        """The same where one pool grows: its bytes are inverted, its raw need is a line."""
        _, _, _, reserved, top, multiple, num, den, places = self._rows[slot]
        for layout, buffers in places:
            limit = rests[layout] - a.bytes[layout] + pool_bytes(a.blocks[slot], buffers)
            most = most_blocks(limit, buffers) - reserved
            top = most if top is None or most < top else top
        if top is None:
            return None
        low, high = (self._raw(slot, first + each.at * period) for each in (a, b))
        if low == high:
            return None
        most_raw = (top - top % multiple) * num // den
        return a.at + (most_raw - low) * (b.at - a.at) // (high - low)

    def _raw(self, slot: int, value: int) -> int:
        raw, terms, *_ = self._rows[slot]
        for term in terms:
            raw += blocks(term, value, value - self.flight)
        return raw
