"""What one rank contributes to a common plan: the problem, its own entry, or why it has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from kvplan.models.base import Frozen
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import cut, one_line
from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank
from kvplan.models.reading.faults import faults_of

LONGEST_ERROR = 2000
"""Characters of an error sent to the other ranks; longer ones are cut at the source."""


class LocalView(Frozen):
    """A problem without its ranks, and the entry of this rank alone.

    `question` is plain data, since a problem cannot be judged before all its ranks are known (a
    stage may be another rank's).
    """

    question: dict[str, Any] = Field(
        default_factory=dict, description="a problem's sections, `ranks` left out"
    )
    rank: Rank | None = Field(default=None, description="this rank's entry, with what it measured")
    error: str = Field(default="", description="why this rank has no entry; empty where it has one")

    @classmethod
    def of(cls, problem: Problem | Mapping[str, Any], rank: Rank | Mapping[str, Any]) -> LocalView:
        """Build from a problem, whose ranks are ignored, and this rank's entry.

        Raises
        ------
        InvalidProblem : the entry is invalid.
        TypeError : the problem is not plain data.
        """
        if isinstance(problem, Problem):
            sections = problem.model_dump(mode="json", exclude={"ranks"}, exclude_unset=True)
        else:
            sections = {key: value for key, value in problem.items() if key != "ranks"}
        # In the order that was written: shares are filled in it.
        return cls(question=json.loads(json.dumps(sections, default=_plain)), rank=_entry(rank))

    @classmethod
    def failed(cls, error: BaseException | str) -> LocalView:
        """Say why this rank has no entry."""
        if isinstance(error, str):
            return cls(error=brief(error) or "an error without a text")
        return cls(error=brief(f"{type(error).__name__}: {error}"))


def _entry(rank: Rank | Mapping[str, Any]) -> Rank:
    if isinstance(rank, Rank):
        return rank
    try:
        return Rank.model_validate(dict(rank))
    except ValidationError as error:
        raise InvalidProblem(faults_of(error, Rank)) from None


def brief(text: str) -> str:
    """An error as one line of at most `LONGEST_ERROR` characters."""
    return cut(one_line(" | ".join(text[: 4 * LONGEST_ERROR].split("\n"))), LONGEST_ERROR)


def canonical(data: Any) -> str:
    """Plain data as JSON with sorted keys: equal text means equal data, on any machine."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """Numbers that JSON lacks: integers where whole, otherwise the text as written."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, Decimal | Fraction):
        return str(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"expected plain data, got {type(value).__name__}")
