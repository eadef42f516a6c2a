"""What a picture shows, whatever draws it: exact integers, with units on every axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvplan.models.units import exact_bytes

GIB = 2**30
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe and Ito's palette, which readers who confuse red and green can tell apart."""
PATTERNS = ("", "/", "x", ".")
"""Beyond eight parts the colours come again, hatched."""

_UNITS = {
    "blocks": "blocks",
    "capacity": "tokens",
    "count": "requests",
    "prefill": "tokens a chunk",
    "experts": "slots",
    "experts_in_prefill": "slots",
    "copies": "copies",
    "choice": "option",
}


@dataclass(frozen=True)
class Scale:
    """An axis or a value.

    Attributes
    ----------
    unit : "bytes" is drawn in GiB; anything else as it is.
    names : what 0, 1, ... stand for, where the values are words.
    """

    label: str
    unit: str
    names: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Label with the unit that is drawn."""
        return f"{self.label} ({'GiB' if self.unit == 'bytes' else self.unit})"

    def drawn(self, value: int | None) -> float | int | None:
        """Where a value stands on the axis."""
        return value / GIB if value is not None and self.unit == "bytes" else value

    def text(self, value: int | None) -> str:
        """The exact value in words."""
        if value is None:
            return "nothing fits"
        if self.names:
            return self.names[value]
        return exact_bytes(value) if self.unit == "bytes" else f"{value:_} {self.unit}"


def scale_of(variable: str, names: Sequence[str] = ()) -> Scale:
    """The scale of a column of `explore`: blocks:kv, capacity:long, prefill ..."""
    return Scale(variable, _UNITS.get(variable.partition(":")[0], "bytes"), tuple(names))


@dataclass(frozen=True)
class Part:
    """One consumer's bytes in every bar."""

    name: str
    bytes: tuple[int, ...]


@dataclass(frozen=True)
class Bars:
    """Stacked bytes beside the limit of every bar.

    Attributes
    ----------
    bars : names, such as "gpu, prefill".
    limits : bytes of the quota of each bar.
    """

    title: str
    bars: tuple[str, ...]
    parts: tuple[Part, ...]
    limits: tuple[int, ...]


@dataclass(frozen=True)
class Panel:
    """One decision along x; None where nothing fits."""

    scale: Scale
    values: tuple[int | None, ...]


@dataclass(frozen=True)
class Mark:
    """A place on the x axis, with what is there."""

    at: int
    text: str


@dataclass(frozen=True)
class Steps:
    """Decisions as staircases over one axis, a panel each."""

    title: str
    x: Scale
    at: tuple[int, ...]
    panels: tuple[Panel, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Points:
    """A front of two goals, or of three: the third is the colour."""

    title: str
    scales: tuple[Scale, ...]
    points: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Heat:
    """One decision over two axes, [y][x]; None where nothing fits."""

    title: str
    x: Scale
    y: Scale
    value: Scale
    at_x: tuple[int, ...]
    at_y: tuple[int, ...]
    values: tuple[tuple[int | None, ...], ...]


Chart = Bars | Steps | Points | Heat
