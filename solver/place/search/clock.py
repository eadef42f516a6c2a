"""Time of a placement in whole ticks, exact: a common denominator of every bandwidth and the hop.

Rounding to picoseconds would make two placements of one time differ, and no bound would close.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple, Protocol

PICOSECONDS = 10**12
WIDEST = 2**58


class Reads(Protocol):
    """An expert tensor, or what moves with it."""

    @property
    def reads(self) -> tuple[int, ...]:
        """Bytes that a token reads of each tensor in it."""


class Clock(NamedTuple):
    """Ticks of a token, by space.

    Attributes
    ----------
    factors, divisors : ticks = bytes x factor // divisor, by space; 0 where the rate is unknown.
    hop : ticks of a change of space.
    per_second : ticks of a second.
    is_exact : nothing is rounded.
    """

    factors: tuple[int, ...]
    divisors: tuple[int, ...]
    hop: int
    per_second: Fraction
    is_exact: bool = True

    def of(self, at: int, read_bytes: int) -> int:
        """Ticks to read so many bytes of a space."""
        return read_bytes * self.factors[at] // self.divisors[at]

    def of_tensor(self, at: int, tensor: Reads) -> int:
        """Ticks to read what a token reads of an expert tensor in a space."""
        return sum([self.of(at, read) for read in tensor.reads])

    def seconds(self, ticks: int) -> Fraction:
        """Exact seconds of some ticks."""
        return ticks / self.per_second


def clock_of(reads: Sequence[int], rates: Sequence[int], hop: int) -> Clock:
    """The coarsest exact ticks; picoseconds, rounded down, where a 64-bit sum would overflow.

    Parameters
    ----------
    reads : bytes of everything that a token reads.
    rates : bytes a second, by space; 0: unknown.
    hop : picoseconds of a change of space.
    """
    unit = gcd(*reads) or 1
    exact = [Fraction(unit, rate) if rate else Fraction(0) for rate in rates]
    exact.append(Fraction(hop, PICOSECONDS))
    common = lcm(*(each.denominator for each in exact))
    whole = [int(each * common) for each in exact]
    shared = gcd(*whole) or 1
    *factors, hops = (each // shared for each in whole)
    most = sum(reads) // unit * max(factors) + 3 * len(reads) * hops
    if most * len(rates) ** 2 >= WIDEST:
        known = tuple(PICOSECONDS if rate else 0 for rate in rates)
        divisors = tuple(rate or 1 for rate in rates)
        return Clock(known, divisors, hop, Fraction(PICOSECONDS), is_exact=False)
    per_second = Fraction(common, shared)
    return Clock(tuple(factors), (unit,) * len(rates), hops, per_second)
