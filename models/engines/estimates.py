"""Terms of a budget that nobody measured, each with the range that it lies in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvplan.models.units import human_bytes

TOTAL_SPREAD_BYTES = 3 * 2**30 // 10


@dataclass(frozen=True)
class Estimate:
    """A term that nobody measured.

    Attributes
    ----------
    flag : what says it instead.
    least, most : the range that logs of such start-ups lie in.
    """

    term: str
    flag: str
    bytes: int
    least: int
    most: int

    @property
    def spread(self) -> str:
        """The range as text."""
        return f"{human_bytes(self.least)} to {human_bytes(self.most)}"

    @property
    def line(self) -> str:
        """As the output lists it."""
        return f"{self.term}: {human_bytes(self.bytes)}, estimated ({self.spread}); {self.flag}"


def total_estimate(settings: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """A card's total as --gpu names it: drivers leave up to 0.3 GiB less."""
    total = settings.get("total_bytes")
    if total is None or not settings.get("total_is_estimated"):
        return ()
    return (Estimate("total", "--total", total, total - TOTAL_SPREAD_BYTES, total),)


def titled(name: str, found: Sequence[Estimate]) -> str:
    """A problem's name with what is estimated in it."""
    terms = ", ".join(f"{one.term} ({one.spread})" for one in found)
    return f"{name}; estimated: {terms}" if found else name
