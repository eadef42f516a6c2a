"""What competes with the pools: prefill staging, expert slots, fixed consumers, choices."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, model_validator

from kvplan.models.base import ByStage, Frozen, Granule, Name, by_key
from kvplan.models.immutable.frozen_dict import FrozenMapping
from kvplan.models.inputs import ByStageLike, BytesLike, NumberLike, PairsLike, Written
from kvplan.models.json_schema import (
    BY_STAGE,
    PAIRS,
    any_of,
    by_keys,
    bytes_input,
    given,
    when,
    whole,
    without,
)
from kvplan.models.messages import Misfit, shown, within
from kvplan.models.units import (
    LIMIT,
    Demand,
    Portion,
    Positive,
    Rate,
    Whole,
    parse_bytes,
    parse_integer,
)

MOST_CHUNKS = 65_536


def _count(value: Any) -> int:
    return parse_integer(value, least=1)


def _demand(value: Any) -> int:
    return parse_bytes(value, round_up=True)


def _pair(value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Misfit("[count, bytes]", shown(value))
    return within(0, _count, value[0]), within(1, _demand, value[1])


def _pairs(value: Any) -> tuple[tuple[int, int], ...]:
    """Read [[count, bytes], ...]."""
    if not isinstance(value, list | tuple) or not value:
        raise Misfit("a list of [count, bytes]", shown(value))
    return tuple(within(index, _pair, entry) for index, entry in enumerate(value))


Pairs = Annotated[
    tuple[tuple[int, int], ...],
    BeforeValidator(_pairs, json_schema_input_type=PAIRS),
]


def _staging_granule(value: Any) -> int | str:
    if value == "pow2":
        return "pow2"
    count = parse_bytes(value, round_up=True)
    if count < 1:
        raise Misfit("a granule of at least 1 byte", shown(value))
    return count


StagingGranule = Annotated[
    int | Literal["pow2"],
    BeforeValidator(_staging_granule, json_schema_input_type=bytes_input(1) | Literal["pow2"]),
]
"""Bytes that an entry is rounded up to a multiple of; "pow2" rounds up to a power of two."""


_LINEAR, _OF_CONTEXT = ("base", "per_token"), ("per_token_context", "context_table")


class Staging(Frozen):
    """Bytes that a prefill of one chunk takes: base + per_token x chunk, or a table.

    A workspace of two variables (scores, masks) adds per_token_context x chunk x context, or a
    table over the context: the capacity of one request.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {**any_of(*_LINEAR, *_OF_CONTEXT), **without("table")},
                {"allOf": [given("table"), without(*_LINEAR)]},
            ],
            **when(given("request"), any_of(*_OF_CONTEXT)),
        }
    )

    name: Name = Field(description="for messages and the ledger")
    base: Demand | None = Field(default=None, description="bytes whatever the chunk")
    per_token: Rate | None = Field(default=None, description="bytes a token of the chunk; exact")
    table: Pairs | None = Field(
        default=None,
        description="[[tokens, bytes], ...]: the first entry with tokens >= chunk counts",
    )
    per_token_context: Rate | None = Field(
        default=None, description="further bytes a token of the chunk and a token of context; exact"
    )
    context_table: Pairs | None = Field(
        default=None,
        description="further [[tokens, bytes], ...]: the first entry with tokens >= context counts",
    )
    request: Name | None = Field(
        default=None,
        description="whose capacity the context is (0 where its count is 0); "
        "may be left out when there is one request",
    )
    granule: StagingGranule = Field(
        default=1, description="rounded up to a multiple, or to a power of two"
    )
    stage: Whole | None = Field(default=None, description="the one stage that has it; default all")
    group: Name | None = Field(default=None, description="of a group only the largest entry counts")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            base: BytesLike | None = None,
            per_token: NumberLike | None = None,
            table: PairsLike | None = None,
            per_token_context: NumberLike | None = None,
            context_table: PairsLike | None = None,
            request: str | None = None,
            granule: BytesLike = 1,
            stage: int | None = None,
            group: str | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        linear = self.base is not None or self.per_token is not None
        if linear and self.table is not None:
            raise Misfit("either base/per_token or a table", "both")
        if not linear and self.table is None and not self.has_context:
            raise Misfit("base/per_token, a table, per_token_context or context_table", "none")
        if self.request is not None and not self.has_context:
            expected = "per_token_context or context_table beside request"
            raise Misfit(expected, "neither", "request")
        for name, table in (("table", self.table), ("context_table", self.context_table)):
            for index, (left, right) in enumerate(pairwise(table or ()), start=1):
                if right[0] <= left[0]:
                    got = f"{right[0]} after {left[0]}"
                    raise Misfit("tokens in increasing order", got, name, index)
                if right[1] < left[1]:
                    got = f"{right[1]} after {left[1]}"
                    raise Misfit("non-decreasing bytes", got, name, index)
        return self

    @property
    def has_context(self) -> bool:
        """Whether its bytes follow the context of a request, too."""
        return self.per_token_context is not None or self.context_table is not None

    def bytes_of(self, chunk: int, context: int = 0) -> int:
        """Bytes for a chunk and a context, in tokens: exact, rounded up once, then to the granule.

        base + per_token x chunk (or the table's entry) + per_token_context x chunk x context + the
        entry of the context's table
        """
        total = (self.per_token or 0) * chunk + (self.per_token_context or 0) * chunk * context
        exact = (self.base or 0) - (-total.numerator // total.denominator)
        for table, tokens in ((self.table, chunk), (self.context_table, context)):
            if table is not None:
                exact += table[bisect_left(table, tokens, key=itemgetter(0))][1]
        if self.granule == "pow2":
            return power_of_two(exact)
        return -(-exact // int(self.granule)) * int(self.granule)


def power_of_two(count: int) -> int:
    """The least power of two that is no smaller; 0 for nothing."""
    return 1 << (count - 1).bit_length() if count else 0


class Prefill(Frozen):
    """The prefill chunk (max_num_batched_tokens, chunked_prefill_size) and what it costs."""

    model_config = ConfigDict(json_schema_extra=when(given("chunks"), without("min", "step")))

    requested: Positive = Field(description="tokens wanted; always a candidate")
    min: Positive | None = Field(
        default=None, description="smallest chunk (default: step, or requested)"
    )
    step: Positive | None = Field(default=None, description="grid from min (default 1)")
    chunks: tuple[Positive, ...] | None = Field(
        default=None, description="candidates, for min and step", json_schema_extra={"minItems": 1}
    )
    batches_in_flight: Positive = Field(default=1, description="chunks in flight at once")
    staging: tuple[Staging, ...] = Field(default=(), description="what a chunk costs in prefill")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            requested: int,
            min: int | None = None,
            step: int | None = None,
            chunks: Sequence[int] | None = None,
            batches_in_flight: int = 1,
            staging: Sequence[Staging | Written] = (),
        ) -> None: ...

    @model_validator(mode="after")
    def _grid(self) -> Self:
        if self.chunks is not None:
            self._listed(self.chunks)
        elif self.min is not None and self.min > self.requested:
            raise Misfit(f"min of at most requested {self.requested}", str(self.min), "min")
        elif (self.requested - self._least) // (self.step or 1) >= MOST_CHUNKS:
            raise Misfit(f"at most {MOST_CHUNKS} chunks", f"a step of {self.step or 1}", "step")
        for index, entry in enumerate(self.staging):
            at = ("staging", index)
            if entry.table is not None and entry.table[-1][0] < self.requested:
                expected = f"a table up to requested {self.requested} tokens"
                raise Misfit(expected, f"one that ends at {entry.table[-1][0]}", *at, "table")
            if entry.bytes_of(self.requested) >= LIMIT:
                raise Misfit("bytes below 2^63 at the requested chunk", "more", *at)
        return self

    def _listed(self, chunks: tuple[int, ...]) -> None:
        if self.min is not None or self.step is not None:
            raise Misfit("either chunks or min and step", "both", "chunks")
        if not 1 <= len(chunks) <= MOST_CHUNKS:
            raise Misfit(f"1 to {MOST_CHUNKS} chunks", str(len(chunks)), "chunks")
        for index, (left, right) in enumerate(pairwise(chunks), start=1):
            if right <= left:
                raise Misfit("chunks in increasing order", f"{right} after {left}", "chunks", index)
        if chunks[-1] > self.requested:
            expected = f"chunks of at most requested {self.requested}"
            raise Misfit(expected, str(chunks[-1]), "chunks", len(chunks) - 1)

    @property
    def _least(self) -> int:
        return self.min or min(self.step or self.requested, self.requested)

    @property
    def candidates(self) -> tuple[int, ...]:
        """Chunks to choose from, in tokens, rising; the requested one is the last."""
        grid = self.chunks
        if grid is None:
            grid = tuple(range(self._least, self.requested + 1, self.step or 1))
        return grid if grid[-1] == self.requested else (*grid, self.requested)


class Lend(Frozen):
    """Expert slots that the prefill may borrow (Strata #796)."""

    keep: Whole = Field(default=0, description="slots that stay at least")
    fraction: Portion = Field(default=Fraction(1), description="share lent at most")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            keep: int = 0,
            fraction: NumberLike = 1,
        ) -> None: ...


def _slot_bytes(value: Any) -> int | tuple[tuple[int, int], ...]:
    return _pairs(value) if isinstance(value, list | tuple) else _demand(value)


class Experts(Frozen):
    """Expert slots kept in device memory, per layer."""

    slot_bytes: Annotated[
        int | tuple[tuple[int, int], ...],
        BeforeValidator(_slot_bytes, json_schema_input_type=bytes_input() | PAIRS),
    ] = Field(description="of one slot of one layer; [[slots, bytes], ...] when sizes differ")
    layers: Annotated[
        int | FrozenMapping[str, int],
        PlainValidator(by_key(parse_integer), json_schema_input_type=whole(0) | by_keys(whole(0))),
    ] = Field(
        default=1,
        description="layers on a rank; one figure or by stage",
        json_schema_extra=BY_STAGE,
    )
    min_slots: Whole = Field(default=0, description="slots a layer at least")
    max_slots: Whole | None = Field(default=None, description="slots a layer at most")
    granule: Granule = Field(
        default=1, description="all slots of a rank are one allocation, rounded up"
    )
    lend: Lend | None = Field(default=None, description="what prefill may borrow")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            slot_bytes: BytesLike | PairsLike,
            layers: ByStageLike = 1,
            min_slots: int = 0,
            max_slots: int | None = None,
            granule: BytesLike = 1,
            lend: Lend | Written | None = None,
        ) -> None: ...

    @property
    def unit(self) -> str:
        """What its counts are."""
        return "slots" if self.layers == 1 else "slots a layer"

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if isinstance(self.slot_bytes, tuple):
            sized = sum(slots for slots, _ in self.slot_bytes)
            if self.max_slots is not None and self.max_slots > sized:
                expected = f"max_slots of at most {sized}, the slots that have a size"
                raise Misfit(expected, str(self.max_slots), "max_slots")
            if self.min_slots > sized:
                expected = f"min_slots of at most {sized}, the slots that have a size"
                raise Misfit(expected, str(self.min_slots), "min_slots")
        if self.max_slots is not None and self.min_slots > self.max_slots:
            expected = f"min_slots of at most max_slots {self.max_slots}"
            raise Misfit(expected, str(self.min_slots), "min_slots")
        return self


_SOME: dict[str, Any] = {"minItems": 1, "uniqueItems": True}


class Consumer(Frozen):
    """A fixed consumer: weights, an arena, a workspace, or an allowance for another one.

    `per_request` adds bytes of each running request: those of the largest batch, and of its copies.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                given("bytes"),
                given("per_request"),
                {"allOf": [given("fraction"), given("of")]},
            ]
        }
    )

    name: Name = Field(description="unique among the consumers")
    bytes: ByStage = Field(
        default=0, description="one figure, by stage or by rank name (left out: none there)"
    )
    fraction: Portion | None = Field(
        default=None, description="instead of bytes: a share of those of another, rounded up"
    )
    of: Name | None = Field(default=None, description="the consumer that fraction is a share of")
    per_request: ByStage = Field(
        default=0, description="further bytes of each running request, keyed as bytes are"
    )
    phases: tuple[Name, ...] | None = Field(
        default=None, description="where it lives; default all", json_schema_extra=_SOME
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            bytes: ByStageLike = 0,
            fraction: NumberLike | None = None,
            of: str | None = None,
            per_request: ByStageLike = 0,
            phases: Sequence[str] | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        named = {"bytes", "per_request"} & self.model_fields_set
        if self.fraction is None and self.of is None and not named:
            raise Misfit("bytes, per_request, or fraction with of", "neither")
        if (self.fraction is None) != (self.of is None):
            lacking = "fraction" if self.fraction is None else "of"
            raise Misfit("fraction and of together", f"no {lacking}", lacking)
        return self


class Option(Frozen):
    """One way to make a choice."""

    name: Name = Field(description="unique within the choice")
    bytes: ByStage = Field(
        default=0, description="one figure, by stage or by rank name (left out: none there)"
    )
    phases: tuple[Name, ...] | None = Field(
        default=None, description="where it lives; default all", json_schema_extra=_SOME
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            bytes: ByStageLike = 0,
            phases: Sequence[str] | None = None,
        ) -> None: ...


class Choice(Frozen):
    """Exactly one of several options, the best first."""

    name: Name = Field(
        description="unique among the choices", json_schema_extra={"not": {"pattern": "="}}
    )
    options: tuple[Option, ...] = Field(description="best first", json_schema_extra={"minItems": 1})

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            options: Sequence[Option | Written],
        ) -> None: ...
