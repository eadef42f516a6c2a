"""Readings typed from a log: 3.58GiB is any value that prints as such, [3.575, 3.585) GiB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from kvplan.solver.logs.reading.interval import UNITS

_READING = re.compile(r"^(\d+\.\d+) ?(KiB|MiB|GiB|KB|MB|GB)$")
_DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
_DEMANDS = frozenset(
    (
        *("--activation", "--non-torch", "--graphs", "--peak-torch", "--connector"),
        *("--weights-gib", "--free-before-load"),
    )
)
"""Flags whose bytes are subtracted (SGLang keeps a share of what was free before the load)."""
End = Literal["low", "high"]


def arguments_at(arguments: Sequence[str], end: End) -> list[str]:
    """Arguments with every printed reading at the end that leaves least, or most, for the cache."""
    moved: list[str] = []
    flag = ""
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if argument.startswith("--") and not equals:
            flag, name, text = argument, "", ""
        elif not argument.startswith("--"):
            name, text = flag, argument
        shifted = reading_at(name, text, end)
        moved.append(
            f"{name}={shifted}"
            if equals and argument.startswith("--") and shifted
            else shifted or argument
        )
    return moved


def reading_at(flag: str, text: str | None, end: End) -> str | None:
    """The bytes at an end of a printed reading; None for what is exact."""
    match = _READING.match(text or "")
    if match is None:
        return None
    digits, unit = match.groups()
    scale = _DECIMAL.get(unit) or UNITS[unit]
    half = Fraction(scale, 2 * 10 ** max(2, len(digits.partition(".")[2])))
    value = Fraction(digits) * scale
    upper = (end == "high") is not (flag in _DEMANDS)
    bound = -(-(value + half) // 1) - 1 if upper else -(-(value - half) // 1)
    return str(bound)


def gib_at(text: str | None, end: End) -> str | None:
    """--weights-gib at an end: a number of GiB without its unit."""
    shifted = reading_at("--weights-gib", f"{text}GiB", end) if text is not None else None
    return text if shifted is None else f"{float(Fraction(int(shifted), UNITS['GiB'])):.12f}"
