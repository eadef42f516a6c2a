"""KVPLAN_WORKLOAD: which requests the bytes are for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from kvplan.models.base import Frozen, TextKeys
from kvplan.models.errors import InvalidProblem
from kvplan.models.immutable.frozen_dict import FrozenMapping
from kvplan.models.inputs import NumberLike, Written
from kvplan.models.messages import Misfit, shown
from kvplan.models.reading.faults import faults_of
from kvplan.models.reading.loader import load_data
from kvplan.models.units import Exact, Positive, Whole

PREFIXES = 16
_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")


class AtOnce(Frozen):
    """`count` requests that hold `capacity` tokens each at the same time."""

    capacity: Positive = Field(description="tokens, prompt and output")
    count: Positive = Field(default=1, description="alike requests")


class Part(Frozen):
    """A share of all requests."""

    capacity: Positive = Field(description="tokens, prompt and output")
    share: Exact = Field(description="of all requests, relative to the other parts")

    if TYPE_CHECKING:

        def __init__(self, *, capacity: int, share: NumberLike) -> None: ...

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if self.share <= 0:
            raise Misfit("a share above 0", shown(self.share), "share")
        return self


class Alike(NamedTuple):
    """Requests of one length in one copy of a workload."""

    capacity: int
    requests: int


class Workload(Frozen):
    """Requests at once, a mix, or quantiles of lengths: one of the three."""

    requests: tuple[AtOnce, ...] | None = Field(default=None, description="live at the same time")
    mix: tuple[Part, ...] | None = Field(default=None, description="lengths and their shares")
    quantiles: Annotated[FrozenMapping[str, Positive], TextKeys] | None = Field(
        default=None, description="tokens by quantile: {p50: 2000, p99: 30000}"
    )
    prefixes: Whole = Field(
        default=PREFIXES, description="cached prefixes that a window pool should keep reusable"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            requests: Sequence[AtOnce | Written] | None = None,
            mix: Sequence[Part | Written] | None = None,
            quantiles: Written | None = None,
            prefixes: int = PREFIXES,
        ) -> None: ...

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        forms = ("requests", "mix", "quantiles")
        given = [form for form in forms if getattr(self, form) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise Misfit("one of requests, mix or quantiles", got)
        if not getattr(self, given[0]):
            raise Misfit("at least one length", "none", given[0])
        if self.quantiles is not None:
            _check(self.quantiles)
        return self

    @property
    def copy_of_it(self) -> tuple[Alike, ...]:
        """One copy: lengths with whole counts in the proportions of the workload.

        Lengths between two quantiles count as the upper one, those above the last as the last.
        """
        if self.requests is not None:
            return tuple(Alike(entry.capacity, entry.count) for entry in self.requests)
        shares = self._shares()
        unit = lcm(*(share.denominator for _, share in shares))
        counts = [(capacity, int(share * unit)) for capacity, share in shares]
        return tuple(Alike(capacity, count) for capacity, count in counts if count)

    def _shares(self) -> list[tuple[int, Fraction]]:
        if self.mix is not None:
            total = sum((part.share for part in self.mix), Fraction(0))
            return [(part.capacity, part.share / total) for part in self.mix]
        assert self.quantiles is not None
        points = sorted((_point(key), tokens) for key, tokens in self.quantiles.items())
        below, shares = Fraction(0), []
        for point, tokens in points:
            shares.append((tokens, point - below))
            below = point
        last, share = shares[-1]
        shares[-1] = (last, share + 1 - below)
        return shares

    @property
    def longest_tokens(self) -> int:
        """The longest length."""
        return max(alike.capacity for alike in self.copy_of_it)


def _point(key: str) -> Fraction:
    return Fraction(key[1:]) / 100


def _check(quantiles: FrozenMapping[str, int]) -> None:
    """Refuse keys that are no quantile, and lengths that fall."""
    for key in quantiles:
        if not _QUANTILE.fullmatch(key) or not _point(key):
            raise Misfit("a quantile above p0: p50, p99.9, p100", shown(key), "quantiles")
    points = sorted(quantiles, key=_point)
    for lower, upper in pairwise(points):
        if quantiles[upper] < quantiles[lower]:
            expected = f"at least the {quantiles[lower]} tokens of {lower}"
            raise Misfit(expected, str(quantiles[upper]), "quantiles", upper)


def load_workload(source: str | Path) -> Workload:
    """Read a workload file, JSON or YAML.

    Raises
    ------
    InvalidProblem : it cannot be read, or every mistake that is in it.
    """
    data = load_data(source)
    try:
        return Workload.model_validate(data)
    except ValidationError as error:
        raise InvalidProblem(faults_of(error, Workload)) from None
