"""Batches of requests that must be servable."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, model_validator

from kvplan.models.base import Frozen, Name
from kvplan.models.inputs import Written
from kvplan.models.json_schema import given, given_as, when
from kvplan.models.messages import Misfit
from kvplan.models.units import Positive, Whole


class Request(Frozen):
    """`count` alike requests; capacity or count may shrink to fit."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                when(given("min_capacity"), given_as("fit", {"const": "capacity"})),
                when(given("min_count"), given_as("fit", {"const": "count"})),
                when(
                    given_as("fit", {"const": "capacity"}),
                    given_as("capacity", {"minimum": 1}),
                ),
            ]
        }
    )

    name: Name | None = Field(default=None, description="default <batch>.<index>")
    capacity: Whole = Field(description="tokens held; 0 holds state blocks only")
    history: Whole | None = Field(
        default=None, description="tokens before the flight; capacity - 1"
    )
    count: Whole | None = Field(
        default=None, description="alike requests (1); fit count: the most wanted"
    )
    fit: Literal["none", "capacity", "count"] = Field(default="none", description="what may shrink")
    min_capacity: Positive | None = Field(default=None, description="fit capacity: tokens at least")
    min_count: Positive | None = Field(default=None, description="fit count: requests at least (1)")
    caches: tuple[Name, ...] | None = Field(
        default=None,
        description="the caches that it uses, where that is not all (one model of two on a device)",
        json_schema_extra={"minItems": 1, "uniqueItems": True},
    )

    @property
    def history_tokens(self) -> int:
        """History, its default included."""
        return max(0, self.capacity - 1) if self.history is None else self.history

    @property
    def flight_tokens(self) -> int:
        """capacity - history, which never shrinks."""
        return self.capacity - self.history_tokens

    @property
    def least_capacity(self) -> int:
        """The lower bound of a fitted capacity: max(1, C - H, min_capacity).

        Where it equals the capacity, nothing is left to fit and the request is fixed.
        """
        return max(1, self.flight_tokens, self.min_capacity or 1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.history is not None and self.history > self.capacity:
            raise Misfit(
                f"history of at most capacity {self.capacity}", str(self.history), "history"
            )
        if self.fit != "capacity" and self.min_capacity is not None:
            raise Misfit("fit: capacity beside min_capacity", f"fit: {self.fit}", "min_capacity")
        if self.fit != "count" and self.min_count is not None:
            raise Misfit("fit: count beside min_count", f"fit: {self.fit}", "min_count")
        if self.fit == "none":
            return self
        if self.fit == "capacity" and self.capacity == 0:
            raise Misfit("a capacity of at least 1 beside fit: capacity", "0", "capacity")
        if self.min_capacity is not None and self.min_capacity > self.capacity:
            expected = f"min_capacity of at most capacity {self.capacity}"
            raise Misfit(expected, str(self.min_capacity), "min_capacity")
        if self.fit == "count" and self.count is not None and self.count < (self.min_count or 1):
            raise Misfit(
                f"count of at least min_count {self.min_count or 1}", str(self.count), "count"
            )
        return self


_PACK_FROM = 24  # requests of a batch


class GivenColumns(NamedTuple):
    """The requests of a batch whose capacity and count are given, as columns of equal length.

    Attributes
    ----------
    capacities, histories : tokens, defaults included.
    counts : alike requests, the default of 1 included; may be 0.
    fitted : positions in the batch of the other requests, whose capacity or count is fitted.
    """

    capacities: Sequence[int]
    histories: Sequence[int]
    counts: Sequence[int]
    fitted: tuple[int, ...]


class Batch(Frozen):
    """Requests that must be servable at once; batches are alternatives in time."""

    name: Name = Field(description="unique among the batches")
    shared_prefix: Whole = Field(
        default=0, description="tokens of one prompt that all requests share"
    )
    requests: tuple[Request, ...] = Field(description="what is live at once")

    __slots__ = (
        "_given",
        "_is_partial",
    )  # no fields, so that a copy with changes starts without it
    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            shared_prefix: int = 0,
            requests: Sequence[Request | Written],
        ) -> None: ...

    def model_post_init(self, _: Any, /) -> None:
        """Read the columns while the requests are at hand."""
        object.__setattr__(self, "_given", given_columns(self.requests))
        object.__setattr__(self, "_is_partial", _some_partial(self.requests))

    @property
    def given(self) -> GivenColumns:
        """The given requests as columns; cached, so do not change them."""
        columns: GivenColumns | None = getattr(self, "_given", None)
        if columns is None:
            columns = given_columns(self.requests)
            object.__setattr__(self, "_given", columns)
        return columns

    @property
    def is_partial(self) -> bool:
        """Whether some request uses some of the caches only."""
        known: bool | None = getattr(self, "_is_partial", None)
        if known is None:
            known = _some_partial(self.requests)
            object.__setattr__(self, "_is_partial", known)
        return known


def _some_partial(requests: tuple[Request, ...]) -> bool:
    return [vars(request)["caches"] for request in requests].count(None) < len(requests)


def given_columns(requests: tuple[Request, ...]) -> GivenColumns:
    """Read requests as columns: a thousand take a tenth of a millisecond."""
    rows = [vars(request) for request in requests]  # twice as fast as their attributes
    fits = [row["fit"] for row in rows]
    fitted: tuple[int, ...] = ()
    if fits.count("none") < len(fits):
        fitted = tuple([at for at, fit in enumerate(fits) if fit != "none"])
        rows = [row for row in rows if row["fit"] == "none"]
    capacities = [row["capacity"] for row in rows]
    histories = [row["history"] for row in rows]
    counts = [row["count"] for row in rows]
    if None in histories:
        pairs = zip(capacities, histories, strict=True)
        histories = [c and c - 1 if history is None else history for c, history in pairs]
    if None in counts:
        counts = [1 if count is None else count for count in counts]
    return GivenColumns(_packed(capacities), _packed(histories), _packed(counts), fitted)


def _packed(column: list[int]) -> Sequence[int]:
    """Many figures side by side as 64-bit integers, which array libraries take as they are."""
    if len(column) < _PACK_FROM:
        return column
    try:
        return array("q", column)
    except OverflowError:
        return column
