"""Terms of a budget that nobody measured, each with the range that it lies in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kvplan.models.engines.layers import Architecture
from kvplan.models.units import human_bytes

Width = Literal["vocabulary", "hidden_dim", "query_heads"]
WIDEST: dict[Width, tuple[str, int]] = {
    "vocabulary": ("vocab_size", 262_144),
    "hidden_dim": ("hidden_size", 16_384),
    "query_heads": ("num_attention_heads", 128),
}
"""Config fields that estimates need, and the largest of common models: Gemma 3's vocabulary,
Llama-3.1-405B's hidden size and heads."""
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


def at_least(architecture: Architecture, width: Width) -> int:
    """A width of the model; the largest of common models where the config does not say."""
    return int(getattr(architecture, width)) or WIDEST[width][1]


def missing_lines(
    architecture: Architecture, found: Sequence[Estimate], *terms: str
) -> tuple[str, ...]:
    """One line for each width that the config lacks, where an estimated term needs it."""
    if not any(one.term in terms for one in found):
        return ()
    return tuple(
        f"{name}: not in the config -> {most} (the largest of common models, for the estimates)"
        for width, (name, most) in WIDEST.items()
        if width != "query_heads" and not getattr(architecture, width)
    )
