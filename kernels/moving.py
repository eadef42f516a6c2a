"""One variable moves, everything else is decided: its pools' blocks and the bytes by layout.

What no value of the variable moves is folded into constants once; limits are no part of it, so
one object serves a problem under any quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kvplan.kernels.bytes import most_blocks, pool_bytes
from kvplan.kernels.evaluate import Evaluator
from kvplan.kernels.largest import Sample, largest
from kvplan.kernels.need import NeedTerm, blocks

_MOST_KNOWN = 4096  # values that are kept
_MOST_DOUBLINGS = 80


class MovingPool(NamedTuple):
    """A pool whose raw need is base + the sum of its terms."""

    pool: int
    base: int
    terms: tuple[NeedTerm, ...]
    least: int  # usable blocks that everything else needs


class Moving:
    """Blocks and bytes by value of one variable.

    Parameters
    ----------
    pools : those that the variable moves.
    usable : blocks by pool; those of pools that do not move count.
    flight : C - H of a capacity.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        pools: Sequence[MovingPool],
        usable: Sequence[int],
        flight: int = 0,
    ) -> None:
        self._evaluator = evaluator
        self._pools, self.flight, self._still = pools, flight, usable
        self._rules = [evaluator.instance.pools[each.pool] for each in pools]
        still = list(usable)
        for each in pools:
            still[each.pool] = -evaluator.reserved[each.pool]
        places = {each.pool: slot for slot, each in enumerate(pools)}
        self._layouts = [
            (
                others,
                [(places[pool], size, granule) for pool, size, granule in layout if pool in places],
            )
            for others, layout in zip(evaluator.pool_bytes(still), evaluator.layouts, strict=True)
        ]
        self._buffers = [
            [buffers[each.pool] if buffers else () for each in pools]
            for buffers in evaluator.buffers
        ]
        self._is_legal = evaluator.within_limits(still)
        self._known: dict[int, tuple[tuple[int, ...], tuple[int, ...], bool]] = {}

    def replaced(self, bound: Callable[[NeedTerm], NeedTerm]) -> Moving:
        """The same with other terms, for example with bounds of them."""
        pools = [
            each._replace(terms=tuple([bound(term) for term in each.terms])) for each in self._pools
        ]
        return Moving(self._evaluator, pools, self._still, self.flight)

    def at(self, value: int) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        """Allocated blocks by moving pool, bytes by layout, whether max_blocks allow them."""
        known = self._known.get(value)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[value] = self._evaluate(value)
        return known

    def _evaluate(self, value: int) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        history, legal = value - self.flight, self._is_legal
        held = []
        for (_, raw, terms, least), rule in zip(self._pools, self._rules, strict=True):
            for term in terms:
                raw += blocks(term, value, history)
            _, reserved, _, most, multiple, num, den = rule
            need = -(-raw * den // num)
            if need < least:
                need = least
            if multiple > 1:
                need = -(-need // multiple) * multiple
            if most is not None and need > most:
                legal = False
            held.append(need + reserved)
        taken = []
        for total, layout in self._layouts:
            for slot, size, granule in layout:
                total += -(-held[slot] * size // granule) * granule
            taken.append(total)
        return tuple(held), tuple(taken), legal

    def sample(self, rests: Sequence[int], value: int, at: int) -> Sample:
        """A value under limits, as the sample of a step."""
        held, taken, legal = self.at(value)
        if legal:
            for total, rest in zip(taken, rests, strict=True):
                if total > rest:
                    legal = False
                    break
        return Sample(at, legal, held, taken)

    def fits(self, rests: Sequence[int], value: int) -> bool:
        """Whether a value fits.

        Parameters
        ----------
        rests : bytes by layout.
        """
        return self.sample(rests, value, 0).fits

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
            return self.sample(rests, first + step * period, step)

        low = probe(0)
        if not low.fits:
            return None
        if steps is None:
            steps = next(
                (1 << n for n in range(_MOST_DOUBLINGS) if not probe(1 << n).fits),
                1 << _MOST_DOUBLINGS,
            )
        high = probe(steps)
        if high.fits:
            return first + steps * period
        guess = partial(self._guess, rests, first, period)
        return first + largest(probe, low, high, guess).at * period

    def usable(self, value: int) -> tuple[int, ...]:
        """Usable blocks of every pool at a value."""
        usable = list(self._still)
        for each, rule, held in zip(self._pools, self._rules, self.at(value)[0], strict=True):
            usable[each.pool] = held - rule.reserved
        return tuple(usable)

    def _guess(
        self, rests: Sequence[int], first: int, period: int, a: Sample, b: Sample
    ) -> int | None:
        """The last step that fits if what grew from a to b grows in a straight line."""
        grown = [slot for slot, held in enumerate(a.blocks) if held != b.blocks[slot]]
        if len(grown) == 1:
            return self._inverted(rests, first, period, a, b, grown[0])
        span = b.at - a.at
        found = [
            a.at + (rest - taken) * span // (more - taken)
            for rest, taken, more in zip(rests, a.bytes, b.bytes, strict=True)
            if more > taken and more > rest
        ]
        for slot in grown:
            _, reserved, _, most, _, _, _ = self._rules[slot]
            if most is not None:
                held, more = a.blocks[slot], b.blocks[slot]
                found.append(a.at + (most + reserved - held) * span // (more - held))
        return min(found, default=None)

    def _inverted(
        self, rests: Sequence[int], first: int, period: int, a: Sample, b: Sample, slot: int
    ) -> int | None:
        """The same where one pool grows: its bytes are inverted, its raw need is a line."""
        _, reserved, _, top, multiple, num, den = self._rules[slot]
        for rest, taken, mine in zip(rests, a.bytes, self._buffers, strict=True):
            if mine[slot]:
                limit = rest - taken + pool_bytes(a.blocks[slot], mine[slot])
                most = most_blocks(limit, mine[slot]) - reserved
                top = most if top is None or most < top else top
        if top is None:
            return None
        low, high = (self._raw(slot, first + each.at * period) for each in (a, b))
        if low == high:
            return None
        most_raw = (top - top % multiple) * num // den
        return a.at + (most_raw - low) * (b.at - a.at) // (high - low)

    def _raw(self, slot: int, value: int) -> int:
        _, raw, terms, _ = self._pools[slot]
        for term in terms:
            raw += blocks(term, value, value - self.flight)
        return raw
