"""What is wanted: goals in order of priority, linear constraints, and who gets the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    StrictBool,
    model_validator,
)
from pydantic_core import CoreSchema

from kvplan.models.base import Frozen, Name, TextKeys
from kvplan.models.immutable.frozen_dict import FrozenDict, FrozenMapping
from kvplan.models.inputs import NumberLike, Written
from kvplan.models.json_schema import CURVE, GOAL_VARIABLE, TERM_VARIABLE, any_of, given, given_as
from kvplan.models.messages import Misfit, shown, within
from kvplan.models.units import Exact, Portion, Ratio, Whole, parse_fraction


def _point(value: Any) -> tuple[Fraction, Fraction]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Misfit("[value, worth]", shown(value))
    return within(0, parse_fraction, value[0]), within(1, parse_fraction, value[1])


def _curve(value: Any) -> tuple[tuple[Fraction, Fraction], ...]:
    if not isinstance(value, list | tuple) or not value:
        raise Misfit("a list of [value, worth]", shown(value))
    points = tuple(within(index, _point, entry) for index, entry in enumerate(value))
    for index, (left, right) in enumerate(pairwise(points), start=1):
        if right[0] <= left[0]:
            raise Misfit("values in increasing order", f"{right[0]} after {left[0]}", index)
    return points


Curve = Annotated[
    tuple[tuple[Exact, Exact], ...],
    BeforeValidator(_curve, json_schema_input_type=CURVE),
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


def _keys(pattern: str) -> dict[str, Any]:
    return {"propertyNames": {"pattern": pattern}}


def _by(pattern: str) -> dict[str, Any]:
    return {**_keys(pattern), "minProperties": 1}


class Goal(Frozen):
    """Maximise sum(weight x variable), a variable seen through its curve where it has one."""

    maximize: Annotated[FrozenMapping[str, Exact], TextKeys] = Field(
        description="weights by variable", json_schema_extra=_by(GOAL_VARIABLE)
    )
    curves: Annotated[FrozenMapping[str, Curve], TextKeys] = Field(
        default_factory=FrozenDict,
        description="worth by variable",
        json_schema_extra=_keys(GOAL_VARIABLE),
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            maximize: Mapping[str, NumberLike],
            curves: Mapping[str, Sequence[Sequence[NumberLike]]] = ...,
        ) -> None: ...

    @model_validator(mode="wrap")
    @classmethod
    def _short_form(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Let "capacity:long" stand for {maximize: {capacity:long: 1}}."""
        if isinstance(data, str):
            return handler({"maximize": {data: 1}})
        if not isinstance(data, dict | Goal):
            raise Misfit("a variable or {maximize: {variable: weight}}", shown(data))
        return handler(data)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Offer the short form, too."""
        short = {
            "type": "string",
            "description": "a variable: maximize it alone",
            "pattern": GOAL_VARIABLE,
        }
        return _either(short, handler(core_schema), handler)

    @model_validator(mode="after")
    def _weights_and_curves(self) -> Self:
        if not self.maximize:
            raise Misfit("at least one variable", "none", "maximize")
        for variable in self.curves:
            if variable not in self.maximize:
                raise Misfit("a weight in maximize for each curve", "none", "curves", variable)
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

    def value(self, variables: Mapping[str, int]) -> Fraction:
        """Exact value of the goal for given values of its variables."""
        total = Fraction(0)
        for variable, weight in self.maximize.items():
            at = variables[variable]
            worth = curve_value(self.curves[variable], at) if variable in self.curves else at
            total += weight * worth
        return total


class Constraint(Frozen):
    """min <= sum(coefficient x variable) <= max."""

    model_config = ConfigDict(json_schema_extra=any_of("min", "max"))

    terms: Annotated[FrozenMapping[str, Exact], TextKeys] = Field(
        description="coefficients by variable", json_schema_extra=_by(TERM_VARIABLE)
    )
    min: Exact | None = Field(default=None, description="lower bound")
    max: Exact | None = Field(default=None, description="upper bound")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            terms: Mapping[str, NumberLike],
            min: NumberLike | None = None,
            max: NumberLike | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.terms:
            raise Misfit("at least one variable", "none", "terms")
        if self.min is None and self.max is None:
            raise Misfit("min or max", "neither")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise Misfit(f"min of at most max {self.max}", str(self.min), "min")
        return self


class MixEntry(Frozen):
    """A length of request in a mix, and how much of the mix it is."""

    capacity: Whole = Field(description="tokens held; 0 holds state blocks only")
    history: Whole | None = Field(
        default=None, description="tokens before the flight; capacity - 1"
    )
    share: Ratio = Field(description="requests of this length in one copy of the mix; exact")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            capacity: int,
            history: int | None = None,
            share: NumberLike,
        ) -> None: ...

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.history is not None and self.history > self.capacity:
            expected = f"history of at most capacity {self.capacity}"
            raise Misfit(expected, str(self.history), "history")
        return self

    @property
    def history_tokens(self) -> int:
        """History, its default included."""
        return max(0, self.capacity - 1) if self.history is None else self.history


class Fill(Frozen):
    """Who gets the rest: copies of a batch, as much as fits of a mix, pools, shares, or nobody.

    * mix: the largest s >= 0, exact and perhaps below 1, so that every pool has
      usable blocks >= ceil(s x sum over the mix of share x need / utilization), `need` being what
      one request of that length holds alone; one ceil for the pool. It is an alternative in time to
      the batches, which keep their floors. Then the pools get the rest as if fill were left out.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                *(given(form) for form in ("batch", "pools", "shares", "mix")),
                given_as("none", {"const": True}),
            ]
        }
    )

    batch: Name | None = Field(default=None, description="whole copies of this batch")
    pools: tuple[Name, ...] | None = Field(
        default=None,
        description="these pools, in this order",
        json_schema_extra={"minItems": 1, "uniqueItems": True},
    )
    shares: Annotated[FrozenMapping[str, Portion], TextKeys] | None = Field(
        default=None,
        description="shares of what the rest leaves; reserved blocks are not shared",
        json_schema_extra={"minProperties": 1},
    )
    mix: tuple[MixEntry, ...] | None = Field(
        default=None,
        description="as much as fits of a mix of lengths, an exact multiple of it",
        json_schema_extra={"minItems": 1},
    )
    none: StrictBool = Field(default=False, description="written fill: none; the rest stays free")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            batch: str | None = None,
            pools: Sequence[str] | None = None,
            shares: Mapping[str, NumberLike] | None = None,
            mix: Sequence[MixEntry | Written] | None = None,
            none: bool = False,
        ) -> None: ...

    @model_validator(mode="wrap")
    @classmethod
    def _short_form(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Read `fill: none`."""
        if isinstance(data, str) and data == "none":
            return handler({"none": True})
        if not isinstance(data, dict | Fill):
            raise Misfit('"none" or one of {batch: }, {pools: }, {shares: }, {mix: }', shown(data))
        return handler(data)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Offer the word none, too."""
        short = {"const": "none", "description": "the rest stays free"}
        return _either(short, handler(core_schema), handler)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        forms = ("batch", "pools", "shares", "mix")
        given = [form for form in forms if getattr(self, form) is not None]
        given += ["none"] if self.none else []
        if len(given) != 1:
            raise Misfit(
                "one of batch, pools, shares, mix or none", " and ".join(given) or "nothing"
            )
        if given[0] != "none" and not getattr(self, given[0]):
            what = "length" if given[0] == "mix" else "pool"
            raise Misfit(f"at least one {what}", "none", given[0])
        seen: set[str] = set()
        for index, pool in enumerate(self.pools or ()):
            if pool in seen:
                raise Misfit("each pool once", f"{shown(pool)} again", "pools", index)
            seen.add(pool)
        if self.shares is not None and sum(self.shares.values()) > 1:
            total = sum(self.shares.values())
            raise Misfit("shares that sum to at most 1", shown(total), "shares")
        return self


def _either(
    short: dict[str, Any], full: dict[str, Any], handler: GetJsonSchemaHandler
) -> dict[str, Any]:
    """Write a schema that takes a short form or the full one."""
    resolved = handler.resolve_ref_schema(full)
    kept = dict(resolved)
    resolved.clear()
    resolved["anyOf"] = [short, kept]
    return full
