"""What competes with the pools: prefill staging, expert slots, fixed consumers, choices."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from kvplan.models.base import ByStage, Frozen, Granule, Name
from kvplan.models.units import Demand, Exact, Positive, Whole, parse_bytes, parse_integer, shown

MOST_CHUNKS = 65_536


def _pairs(value: Any) -> Any:
    """Read [[count, bytes], ...]."""
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"expected a list of [count, bytes], got {shown(value)}")
    pairs = []
    for entry in value:
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            raise ValueError(f"expected [count, bytes], got {shown(entry)}")
        pairs.append((parse_integer(entry[0], least=1), parse_bytes(entry[1], round_up=True)))
    return tuple(pairs)


Pairs = Annotated[
    tuple[tuple[int, int], ...],
    BeforeValidator(_pairs, json_schema_input_type=list[tuple[int, int | str]]),
]


class Staging(Frozen):
    """Bytes that a prefill of one chunk takes: base + per_token x chunk, or a table."""

    name: Name = Field(description="for messages and the ledger")
    base: Demand | None = Field(None, description="bytes whatever the chunk")
    per_token: Exact | None = Field(None, ge=0, description="bytes a token of the chunk; exact")
    table: Pairs | None = Field(
        None, description="[[tokens, bytes], ...]: the first entry with tokens >= chunk counts"
    )
    granule: Granule = Field(1, description="rounded up to a multiple")
    stage: Whole | None = Field(None, description="the one stage that has it; default all")
    group: Name | None = Field(None, description="of a group only the largest entry counts")

    @model_validator(mode="before")
    @classmethod
    def _per_token_bytes(cls, data: Any) -> Any:
        """Let per_token carry a unit ("64KiB")."""
        text = data.get("per_token") if isinstance(data, dict) else None
        if isinstance(text, str) and text.strip()[-1:].isalpha():
            return {**data, "per_token": parse_bytes(text, round_up=True)}
        return data

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        linear = self.base is not None or self.per_token is not None
        if linear == (self.table is not None):
            got = "both" if linear else "neither"
            raise ValueError(f"expected either base/per_token or a table, got {got}")
        for left, right in pairwise(self.table or ()):
            if right[0] <= left[0]:
                raise ValueError(f"expected tokens in rising order, got {right[0]} after {left[0]}")
            if right[1] < left[1]:
                raise ValueError(f"expected bytes that never fall, got {right[1]} after {left[1]}")
        return self

    def bytes_of(self, chunk: int) -> int:
        """Bytes for a chunk: exact, rounded up once, then up to the granule."""
        if self.table is not None:
            exact = next(count for tokens, count in self.table if tokens >= chunk)
        else:
            total = (self.per_token or 0) * chunk
            exact = (self.base or 0) - (-total.numerator // total.denominator)
        return -(-exact // self.granule) * self.granule


class Prefill(Frozen):
    """The prefill chunk (max_num_batched_tokens, chunked_prefill_size) and what it costs."""

    requested: Positive = Field(description="tokens wanted; always a candidate")
    min: Positive | None = Field(None, description="smallest chunk (default: step, or requested)")
    step: Positive | None = Field(None, description="grid from min (default 1)")
    chunks: tuple[Positive, ...] | None = Field(None, description="candidates, for min and step")
    batches_in_flight: Positive = Field(1, description="chunks in flight at once")
    staging: tuple[Staging, ...] = Field((), description="what a chunk costs in prefill")

    @model_validator(mode="after")
    def _grid(self) -> Self:
        if self.chunks is not None:
            if self.min is not None or self.step is not None:
                raise ValueError("expected either chunks or min and step, got both")
            if not self.chunks or list(self.chunks) != sorted(set(self.chunks)):
                raise ValueError("expected chunks in rising order, at least one")
            if self.chunks[-1] > self.requested:
                raise ValueError(
                    f"expected chunks of at most requested {self.requested}, got {self.chunks[-1]}"
                )
        elif self.min is not None and self.min > self.requested:
            raise ValueError(
                f"expected min of at most requested {self.requested}, got {self.min}"
            )
        elif (self.requested - self._least) // (self.step or 1) >= MOST_CHUNKS:
            raise ValueError(f"expected at most {MOST_CHUNKS} chunks, got a finer step")
        for entry in self.staging:
            if entry.table is not None and entry.table[-1][0] < self.requested:
                raise ValueError(
                    f"expected staging {entry.name!r} up to {self.requested} tokens, "
                    f"got a table that ends at {entry.table[-1][0]}"
                )
        return self

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

    keep: Whole = Field(0, description="slots that stay at least")
    fraction: Exact = Field(Fraction(1), ge=0, le=1, description="share lent at most")


def _slot_bytes(value: Any) -> Any:
    return _pairs(value) if isinstance(value, list | tuple) else parse_bytes(value, round_up=True)


def _layers(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(stage): parse_integer(count) for stage, count in value.items()}
    return parse_integer(value, least=1)


class Experts(Frozen):
    """Expert slots kept in device memory, per layer."""

    slot_bytes: Annotated[
        int | tuple[tuple[int, int], ...],
        BeforeValidator(_slot_bytes, json_schema_input_type=int | str | list[tuple[int, int | str]]),
    ] = Field(description="of one slot of one layer; [[slots, bytes], ...] when sizes differ")
    layers: Annotated[
        int | dict[str, int],
        BeforeValidator(_layers, json_schema_input_type=int | dict[str, int]),
    ] = Field(1, description="layers on a rank; one figure or by stage")
    min_slots: Whole = Field(0, description="slots a layer at least")
    max_slots: Whole | None = Field(None, description="slots a layer at most")
    granule: Granule = Field(1, description="all slots of a rank are one allocation, rounded up")
    lend: Lend | None = Field(None, description="what prefill may borrow")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if isinstance(self.slot_bytes, tuple):
            sized = sum(slots for slots, _ in self.slot_bytes)
            if self.max_slots is not None and self.max_slots > sized:
                raise ValueError(f"expected max_slots of at most {sized} sized slots, got more")
            if self.min_slots > sized:
                raise ValueError(f"expected min_slots of at most {sized} sized slots, got more")
        if self.max_slots is not None and self.min_slots > self.max_slots:
            raise ValueError(
                f"expected min_slots of at most max_slots {self.max_slots}, got {self.min_slots}"
            )
        return self


class Consumer(Frozen):
    """A fixed consumer: weights, an arena, a workspace."""

    name: Name = Field(description="unique among the consumers")
    bytes: ByStage = Field(description="one figure, by stage or by rank name")
    phases: tuple[Name, ...] | None = Field(None, description="where it lives; default all")


class Option(Frozen):
    """One way to make a choice."""

    name: Name = Field(description="unique within the choice")
    bytes: ByStage = Field(0, description="one figure, by stage or by rank name")
    phases: tuple[Name, ...] | None = Field(None, description="where it lives; default all")


class Choice(Frozen):
    """Exactly one of several options, the best first."""

    name: Name = Field(description="unique among the choices")
    options: tuple[Option, ...] = Field(description="best first")
