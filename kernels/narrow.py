"""A short range that holds the largest value of a variable capacity, whatever its residue.

A live window that slides holds K or K + 1 blocks. With K its need is never less, with K + 1 never
more than what it is, and both bounds grow with the capacity: they can be bisected token by token
where the need itself can only be bisected within a residue class.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kvplan.kernels.largest import bisect_largest
from kvplan.kernels.moving import Moving
from kvplan.kernels.need import NeedTerm, ScratchTerm, ceil_div, stale_blocks


class Narrowed(NamedTuple):
    """Where the largest value stands.

    Attributes
    ----------
    best : a value that fits, or None where none is known.
    end : no larger value fits.
    """

    best: int | None
    end: int


def narrowed(moving: Moving, rests: Sequence[int], low: int, high: int) -> Narrowed:
    """Narrow [low, high] for as long as the range halves.

    Parameters
    ----------
    rests : bytes by layout.
    """
    best = None
    while True:
        span = high - low
        least = moving.replaced(partial(term_bound, flight=moving.flight, low=low, high=high))
        if not least.fits(rests, low):
            return Narrowed(best, low - 1)
        most = moving.replaced(
            partial(term_bound, flight=moving.flight, low=low, high=high, above=1)
        )
        high = bisect_largest(partial(least.fits, rests), low, high)
        if most.fits(rests, low):
            best = low = bisect_largest(partial(most.fits, rests), low, high)
        if 2 * (high - low) > span or low == high:
            return Narrowed(best, high)


def term_bound(term: NeedTerm, flight: int, low: int, high: int, above: int = 0) -> NeedTerm:
    """A bound of a term at every capacity in [low, high] that never falls in between.

    From below, or with `above` = 1 from above:

    * live: min(ceil(C/t), K + above), K = ceil((F + stale_from) / t), less the fewest or most
      blocks that scratch spares
    * a shared prefix, of which ever more goes stale: what is alive at one end of the range

    Parameters
    ----------
    flight : F = C - H, tokens.
    """
    if term.stale_from is None:
        return term
    if term.stale_most is not None:
        stale = stale_blocks(term, (low if above else high) - flight)
        return term._replace(stale_from=None, stale_most=None, extra=term.extra - stale)
    most = ceil_div(flight + term.stale_from, term.block_tokens) + above
    extra = term.extra
    if term.scratch is not None:
        extra -= _spared(term.scratch, term.block_tokens, flight, low if above else high, above)
    return term._replace(most=most, stale_from=None, scratch=None, extra=extra)


def _spared(scratch: ScratchTerm, block_tokens: int, flight: int, capacity: int, above: int) -> int:
    """Blocks that scratch spares: the most up to a capacity, the fewest from it on (`above`).

    L or L - 1 blocks are scratch, L = floor((F - R - (W - 1)) / t), once as many can go stale.
    """
    reached = (max(0, capacity - scratch.rewind) - scratch.reach) // block_tokens
    lent = (flight - scratch.rewind - scratch.reach) // block_tokens - above
    lent = max(0, min(lent, reached - scratch.first))
    return int(lent - ceil_div(lent * scratch.num, scratch.den))
