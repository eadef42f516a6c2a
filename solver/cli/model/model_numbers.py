"""Numbers as a log prints them: values, and what their last digit leaves open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.solver.logs.reading.interval import UNITS

NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
_VALUE = re.compile(rf"({NUMBER}) ?([KMG]i?B\b|tokens\b|x\b|%)?")


class Number(NamedTuple):
    """A printed number: its value in units of one, and half of its last digit."""

    value: Fraction
    half: Fraction
    text: str


def numbers_in(text: str) -> list[Number]:
    """All numbers of a text; those with a unit of bytes or as a ratio have two decimals at least.

    Zeros at the end are dropped by some engines: 5.0 GiB stands for 5.00.
    """
    found = []
    for match in _VALUE.finditer(text):
        digits, unit = match[1].rstrip(",").replace(",", ""), match[2] or ""
        scale = UNITS.get(unit, 1) if unit != "B" else 1
        decimals = len(digits.partition(".")[2])
        if decimals or scale > 1:
            decimals = max(2, decimals)
        half = Fraction(scale, 2 * 10**decimals) if decimals else Fraction(0)
        found.append(Number(Fraction(digits) * scale, half, match[0].strip().rstrip(",")))
    return found


def within(logged: Number, plans: Sequence[Number]) -> bool:
    """Whether a value between the plans' prints as the log has it."""
    low, high = min(plan.value for plan in plans), max(plan.value for plan in plans)
    half = max(logged.half, *(plan.half for plan in plans))
    if not half:
        return low <= logged.value <= high
    return low - half < logged.value < high + half
