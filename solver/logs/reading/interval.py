"""Printed figures as what they can stand for: 160.40 is anything from 160.395 to 160.405."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

KIB, MIB, GIB = 2**10, 2**20, 2**30
UNITS = {"": 1, "B": 1, "KB": KIB, "MB": MIB, "GB": GIB, "KiB": KIB, "MiB": MIB, "GiB": GIB}
"""Engines divide by powers of two and print GB or GiB alike."""
FIGURE = r"(-?\d{1,20}(?:\.\d{1,20})?)"
"""A printed figure, as a group of a pattern."""


class Interval(NamedTuple):
    """All values from low to high, both included."""

    low: Fraction
    high: Fraction

    @classmethod
    def exactly(cls, value: int | Fraction) -> Interval:
        """A value without rounding."""
        return cls(Fraction(value), Fraction(value))

    def __add__(self, other: Interval) -> Interval:  # type: ignore[override]
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def times(self, other: Interval) -> Interval:
        """Product of values of at least 0."""
        return Interval(self.low * other.low, self.high * other.high)

    def over(self, other: Interval) -> Interval:
        """Quotient of values of at least 0 by values above 0."""
        return Interval(self.low / other.high, self.high / other.low)

    def lowered(self, count: int = 1) -> Interval:
        """What is left when up to so much may have been cut off."""
        return Interval(self.low - count, self.high)

    def meets(self, other: Interval) -> bool:
        """Whether some value is in both."""
        return self.low <= other.high and other.low <= self.high

    def within(self, other: Interval) -> Interval:
        """What both allow; this one where they exclude each other."""
        if not self.meets(other):
            return self
        return Interval(max(self.low, other.low), min(self.high, other.high))

    @property
    def centre(self) -> Fraction:
        """The value in the middle."""
        return (self.low + self.high) / 2

    @property
    def middle(self) -> int:
        """The value in the middle, in whole units."""
        return round(self.centre)


def least_of(first: Interval, *others: Interval) -> Interval:
    """The smallest of several values."""
    every = (first, *others)
    return Interval(min(i.low for i in every), min(i.high for i in every))


def printed(text: str, unit: str = "", decimals: int = 0) -> Interval:
    """What a printed decimal can stand for.

    Parameters
    ----------
    text : digits, with thousands separators perhaps; a figure without decimals is exact.
    unit : "GiB" and the like; of a unit the last digit is rounded, without decimals too.
    decimals : that the engine rounds to at least, where it drops zeros at the end.
    """
    digits = text.replace(",", "")
    value = Fraction(digits) * UNITS[unit]
    decimals = max(decimals, len(digits.partition(".")[2]))
    if not decimals and UNITS[unit] == 1:
        return Interval.exactly(value)
    half = Fraction(UNITS[unit], 2 * 10**decimals)
    return Interval(value - half, value + half)
