"""What is wanted: goals in order of priority, linear constraints, and who gets the rest."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, model_validator

from kvplan.models.base import Frozen, Name
from kvplan.models.units import Exact, parse_fraction, shown


def _curve(value: Any) -> Any:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"expected a list of [value, worth], got {shown(value)}")
    points = []
    for entry in value:
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            raise ValueError(f"expected [value, worth], got {shown(entry)}")
        points.append((parse_fraction(entry[0]), parse_fraction(entry[1])))
    for left, right in pairwise(points):
        if right[0] <= left[0]:
            raise ValueError(f"expected values in rising order, got {right[0]} after {left[0]}")
    return tuple(points)


Curve = Annotated[
    tuple[tuple[Exact, Exact], ...],
    BeforeValidator(_curve, json_schema_input_type=list[tuple[int | float, int | float]]),
]
"""Piecewise-linear points [[value, worth], ...]; constant beyond the ends."""


def curve_value(points: tuple[tuple[Fraction, Fraction], ...], at: int) -> Fraction:
    """Exact worth on a piecewise-linear curve, constant beyond its ends."""
    if at <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if at <= x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return points[-1][1]


class Goal(Frozen):
    """Maximise sum(weight x variable), a variable seen through its curve where it has one."""

    maximize: dict[str, Exact] = Field(description="weights by variable")
    curves: dict[str, Curve] = Field(default_factory=dict, description="worth by variable")

    @model_validator(mode="wrap")
    @classmethod
    def _short_form(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Let "capacity:long" stand for {maximize: {capacity:long: 1}}."""
        return handler({"maximize": {data: 1}} if isinstance(data, str) else data)

    @model_validator(mode="after")
    def _weights_and_curves(self) -> Self:
        if not self.maximize:
            raise ValueError("expected at least one variable, got none")
        for variable in self.curves:
            if variable not in self.maximize:
                raise ValueError(f"expected a weight for the curve of {variable!r}, got none")
        return self

    @property
    def single(self) -> str | None:
        """The variable of a plain goal (one variable, positive weight, no curve)."""
        if len(self.maximize) > 1 or self.curves:
            return None
        variable, weight = next(iter(self.maximize.items()))
        return variable if weight > 0 else None

    @property
    def label(self) -> str:
        """How the goal is written in notes and proofs."""
        if self.single is not None:
            return self.single
        return " + ".join(f"{weight} {variable}" for variable, weight in self.maximize.items())

    def value(self, variables: dict[str, int]) -> Fraction:
        """Exact value of the goal for given values of its variables."""
        total = Fraction(0)
        for variable, weight in self.maximize.items():
            at = variables[variable]
            worth = curve_value(self.curves[variable], at) if variable in self.curves else at
            total += weight * worth
        return total


class Constraint(Frozen):
    """min <= sum(coefficient x variable) <= max."""

    terms: dict[str, Exact] = Field(description="coefficients by variable")
    min: Exact | None = Field(None, description="lower bound")
    max: Exact | None = Field(None, description="upper bound")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.terms:
            raise ValueError("expected at least one variable in terms, got none")
        if self.min is None and self.max is None:
            raise ValueError("expected min or max, got neither")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"expected min of at most max {self.max}, got {self.min}")
        return self


class Fill(Frozen):
    """Who gets the rest: whole copies of a batch, pools in order, shares, or nobody."""

    batch: Name | None = Field(None, description="whole copies of this batch")
    pools: tuple[Name, ...] | None = Field(None, description="these pools, in this order")
    shares: dict[Name, Exact] | None = Field(None, description="shares of what the rest leaves")
    none: bool = Field(False, description='written fill: none; the rest stays free')

    @model_validator(mode="wrap")
    @classmethod
    def _short_form(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Read `fill: none`."""
        return handler({"none": True} if data == "none" else data)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = [self.batch is not None, self.pools is not None, self.shares is not None, self.none]
        if sum(given) != 1:
            raise ValueError('expected one of batch, pools, shares or "none"')
        if self.pools is not None and len(set(self.pools)) != len(self.pools):
            raise ValueError("expected each pool once, got one twice")
        if self.shares is not None:
            if any(share < 0 for share in self.shares.values()):
                raise ValueError("expected shares of at least 0, got a negative one")
            if sum(self.shares.values()) > 1:
                raise ValueError(
                    f"expected shares that sum to at most 1, got {sum(self.shares.values())}"
                )
        return self
