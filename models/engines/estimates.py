"""Terms of a budget that nobody measured, each with the range that it lies in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from kvplan.models.engines.layers import Architecture
from kvplan.models.json_schema import LONGEST_NAME
from kvplan.models.messages import cut
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
    """A card's total as --gpu names it: drivers leave up to 0.3 GiB less, or a machine's limit."""
    total = settings.get("total_bytes")
    if total is None or not settings.get("total_is_estimated"):
        return ()
    least, most = settings.get("total_range") or (total - TOTAL_SPREAD_BYTES, total)
    return (Estimate("total", "--total", total, least, most),)


def kept_estimate(settings: Mapping[str, Any], share: Fraction | int = 1) -> tuple[Estimate, ...]:
    """What the GPU of a unified-memory machine does not get, as far as `share` of the total covers.

    An engine that takes a share leaves the rest to the system; only what goes beyond is charged.
    """
    kept, total = settings.get("kept"), settings.get("total_bytes")
    if kept is None or total is None:
        return ()
    left = total - int(Fraction(share) * total // 1)
    size, least, most = (max(0, one - left) for one in (kept.bytes, kept.least, kept.most))
    return (replace(kept, bytes=size, least=least, most=most),) if size else ()


def titled(name: str, found: Sequence[Estimate]) -> str:
    """A problem's name with what is estimated in it; without the ranges where they are too many."""
    if not found:
        return name
    terms = ", ".join(f"{one.term} ({one.spread})" for one in found)
    whole = f"{name}; estimated: {terms}"
    if len(whole) <= LONGEST_NAME:
        return whole
    return cut(f"{name}; estimated: {', '.join(one.term for one in found)}", LONGEST_NAME)


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
