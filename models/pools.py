"""Pools of blocks, and the caches that draw on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from kvplan.models.base import ByStage, Frozen, Name
from kvplan.models.inputs import ByStageLike, BytesLike, NumberLike, Written
from kvplan.models.json_schema import (
    bytes_input,
    given,
    given_as,
    one_of,
    when,
    whole,
    without,
)
from kvplan.models.messages import Misfit, shown
from kvplan.models.units import Portion, Positive, Supply, Whole, parse_bytes, parse_integer


def _granule(value: Any) -> Any:
    if value in ("auto", "pow2"):
        return value
    try:
        count = parse_bytes(value, round_up=True)
    except Misfit as error:
        raise Misfit(f'"auto", "pow2", or {error.expected}', shown(value)) from None
    if count < 1:
        raise Misfit('a granule of at least 1 byte, "auto" or "pow2"', shown(value))
    return count


PageGranule = Annotated[
    int | Literal["auto", "pow2"],
    BeforeValidator(_granule, json_schema_input_type=bytes_input(1) | Literal["auto", "pow2"]),
]
"""Bytes that an allocation is rounded up to a multiple of.

"auto" follows the rank's quota; "pow2" rounds up to a power of two.
"""


class Buffer(Frozen):
    """One allocation of n blocks, rounded up to its granule."""

    name: Name | None = Field(default=None, description="for messages")
    bytes: ByStage = Field(
        description="of one block on one rank; one figure, by stage or by rank name"
    )
    granule: PageGranule = Field(
        default=1, description="the allocation is rounded up to a multiple, or to a power of two"
    )
    max_bytes: Supply | None = Field(
        default=None, description="the allocation on a rank takes at most so much, rounded up"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str | None = None,
            bytes: ByStageLike,
            granule: BytesLike = 1,
            max_bytes: BytesLike | None = None,
        ) -> None: ...

    def most_blocks(self, block_bytes: int) -> int:
        """Blocks of so many bytes that the largest allocation holds; its granule is no "auto"."""
        assert self.max_bytes is not None
        if self.granule == "pow2":
            whole = 1 << self.max_bytes.bit_length() - 1 if self.max_bytes else 0
        else:
            whole = self.max_bytes - self.max_bytes % int(self.granule)
        return whole // block_bytes


class Pool(Frozen):
    """A space of block ids; every rank allocates the same count."""

    model_config = ConfigDict(
        json_schema_extra={
            **one_of("bytes", "buffers"),
            **when(given("buffers"), without("granule", "max_bytes")),
        }
    )

    name: Name = Field(description="unique among the pools")
    bytes: ByStage | None = Field(
        default=None,
        description="of one block: one buffer; one figure, by stage or by rank name",
    )
    granule: PageGranule | None = Field(default=None, description="of that one buffer (default 1)")
    max_bytes: Supply | None = Field(default=None, description="of that one buffer")
    buffers: tuple[Buffer, ...] | None = Field(
        default=None, description="several allocations a block", json_schema_extra={"minItems": 1}
    )
    reserved_blocks: Whole = Field(default=0, description="allocated, never usable")
    min_blocks: Whole = Field(default=0, description="usable blocks at least")
    max_blocks: Whole | None = Field(default=None, description="usable blocks at most")
    multiple_of: Positive = Field(default=1, description="usable blocks are a multiple of this")
    resume_headroom: StrictBool = Field(
        default=True, description="false: resume_utilization does not apply"
    )

    __slots__ = ("_figures",)  # not a field, so that a copy with changes starts without it
    if TYPE_CHECKING:
        _figures: PoolFigures

        def __init__(
            self,
            *,
            name: str,
            bytes: ByStageLike | None = None,
            granule: BytesLike | None = None,
            max_bytes: BytesLike | None = None,
            buffers: Sequence[Buffer | Written] | None = None,
            reserved_blocks: int = 0,
            min_blocks: int = 0,
            max_blocks: int | None = None,
            multiple_of: int = 1,
            resume_headroom: bool = True,
        ) -> None: ...

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        if (self.bytes is None) == (self.buffers is None):
            got = "neither" if self.bytes is None else "both"
            raise Misfit("either bytes or buffers", got)
        if self.buffers is not None and self.granule is not None:
            raise Misfit("the granule on each buffer", "one beside buffers", "granule")
        if self.buffers is not None and self.max_bytes is not None:
            raise Misfit("max_bytes on each buffer", "one beside buffers", "max_bytes")
        if self.buffers == ():
            raise Misfit("at least one buffer", "an empty list", "buffers")
        if self.max_blocks is not None and self.min_blocks > self.max_blocks:
            expected = f"min_blocks of at most max_blocks {self.max_blocks}"
            raise Misfit(expected, str(self.min_blocks), "min_blocks")
        return self

    @property
    def layout(self) -> tuple[Buffer, ...]:
        """The buffers of a block, the short form included."""
        if self.buffers is not None:
            return self.buffers
        assert self.bytes is not None
        granule = 1 if self.granule is None else self.granule
        most = self.max_bytes
        return (
            Buffer.model_construct(name=None, bytes=self.bytes, granule=granule, max_bytes=most),
        )

    def model_post_init(self, _: Any, /) -> None:
        """Read the figures while the buffers are at hand."""
        object.__setattr__(self, "_figures", _figures_of(self))

    @property
    def figures(self) -> PoolFigures:
        """The buffers as plain figures; cached."""
        try:
            return self._figures
        except AttributeError:  # of a copy
            object.__setattr__(self, "_figures", _figures_of(self))
            return self._figures


class PoolFigures(NamedTuple):
    """Block bytes and granule of every buffer of a pool.

    Attributes
    ----------
    buffers : as written; bytes may be by stage or by rank name, a granule may be "auto".
    plain : the same where every rank has them alike, and some bytes of each; else None.
    """

    buffers: tuple[tuple[int | Mapping[str, int], int | Literal["auto", "pow2"]], ...]
    plain: tuple[tuple[int, int], ...] | None
    limited: bool  # whether some allocation has a largest size


def _figures_of(pool: Pool) -> PoolFigures:
    buffers = tuple([(buffer.bytes, buffer.granule) for buffer in pool.buffers or ()])
    if pool.bytes is not None:
        buffers = ((pool.bytes, 1 if pool.granule is None else pool.granule),)
    limits = [buffer.max_bytes for buffer in pool.buffers or (pool,)]
    limited = limits.count(None) < len(limits)
    found = []
    for size, granule in buffers:
        if not isinstance(size, int) or not size or not isinstance(granule, int):
            return PoolFigures(buffers, None, limited)
        found.append((size, granule))
    return PoolFigures(buffers, tuple(found), limited)


class Scratch(Frozen):
    """Blocks that only the running prefill needs take a fraction of a slot (TensorRT-LLM V2)."""

    fraction: Portion = Field(description="share of a slot that a scratch block takes")
    max_rewind: Whole = Field(
        default=0, description="tokens that speculative decoding may take back"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            fraction: NumberLike,
            max_rewind: int = 0,
        ) -> None: ...


_ALLOWED = {
    "full": {"shards"},
    "window": {"window", "sink", "keep", "in_flight", "in_flight_per", "scratch"},
    "chunked": {"chunk", "in_flight", "in_flight_per"},
    "state": {"blocks"},
}
_NEEDED = {"window": "window", "chunked": "chunk"}
_KIND_FIELDS = sorted(set().union(*_ALLOWED.values()))
_KEEP_FIELDS = {
    "peak": {"window", "sink", "keep", "in_flight"},
    "live": {"window", "sink", "keep", "scratch"},
    "in_flight": {"window", "keep", "in_flight", "in_flight_per"},
}
_DEFAULTS = {"sink": 0, "in_flight": 1, "in_flight_per": "request"}  # harmless on any window


def _in_flight(value: Any) -> Any:
    if value is None or value == "prefill":
        return value
    try:
        return parse_integer(value, what="tokens", least=1)
    except Misfit as error:
        raise Misfit(f'"prefill", or {error.expected}', shown(value)) from None


Flight = Annotated[
    int | Literal["prefill"] | None,
    BeforeValidator(
        _in_flight,
        json_schema_input_type=whole(1) | Literal["prefill"] | None,
    ),
]


def _kind_rules() -> list[Any]:
    """Which fields go with a kind, and with what a window keeps, for the JSON Schema."""
    rules: list[Any] = []
    for kind, allowed in _ALLOWED.items():
        needed = given(_NEEDED[kind]) if kind in _NEEDED else {}
        others = without(*(field for field in _KIND_FIELDS if field not in allowed))
        rules.append(when(given_as("kind", {"const": kind}), {"allOf": [others, needed]}))
    window = given_as("kind", {"const": "window"})
    for keep, allowed in _KEEP_FIELDS.items():
        keeps = {"properties": {"keep": {"enum": [None, keep]}}}
        if keep != "peak":
            keeps = given_as("keep", {"const": keep})
        harmless = {
            field: {"enum": [None, _DEFAULTS[field]] if field in _DEFAULTS else [None]}
            for field in sorted(_ALLOWED["window"] - allowed)
        }
        rules.append(when({"allOf": [window, keeps]}, {"properties": harmless}))
    return rules


class Cache(Frozen):
    """A set of layers with one retention rule ("life cycle", "KV cache group")."""

    model_config = ConfigDict(json_schema_extra={"allOf": _kind_rules()})

    name: Name = Field(description="unique among the caches")
    pool: Name | None = Field(default=None, description="may be left out when there is one pool")
    kind: Literal["full", "window", "chunked", "state"] = Field(description="retention rule")
    tokens_per_block: Positive | None = Field(default=None, description="default: the problem's")
    groups: Positive = Field(default=1, description="block ids for each logical block")
    extra_blocks: Whole = Field(default=0, description="further blocks a request")
    shards: Positive | None = Field(
        default=None, description="full: context-parallel ranks (default 1)"
    )
    window: Positive | None = Field(default=None, description="window: tokens a query can see")
    sink: Whole | None = Field(
        default=None, description="window: first tokens that are always kept"
    )
    keep: Literal["peak", "live", "in_flight"] | None = Field(
        default=None, description="window: peak (default), live or in_flight"
    )
    chunk: Positive | None = Field(default=None, description="chunked: tokens of a local chunk")
    blocks: Positive | None = Field(
        default=None, description="state: blocks of a request (default 1)"
    )
    in_flight: Flight = Field(
        default=None, description="tokens in flight, the current one included; default 1"
    )
    in_flight_per: Literal["request", "batch"] | None = Field(
        default=None, description="whether each request (default) or the batch holds the flight"
    )
    scratch: Scratch | None = Field(default=None, description="window live: scratch reuse")

    @model_validator(mode="after")
    def _fields_of_kind(self) -> Self:
        values = vars(self)  # quicker than nine attributes
        given = [field for field in _KIND_FIELDS if values[field] is not None]
        for field in given:
            if field not in _ALLOWED[self.kind]:
                expected = f"no {field} on a {self.kind} cache"
                raise Misfit(expected, shown(getattr(self, field)), field)
        needed = _NEEDED.get(self.kind)
        if needed is not None and getattr(self, needed) is None:
            raise Misfit(f"{needed} (tokens) on a {self.kind} cache", "none", needed)
        if self.kind == "window":
            self._fields_of_window(given)
        return self

    def _fields_of_window(self, given: list[str]) -> None:
        keep = self.keep or "peak"
        for field in given:
            value = getattr(self, field)
            if field not in _KEEP_FIELDS[keep] and value != _DEFAULTS.get(field):
                raise Misfit(f"no {field} on a window that keeps {keep}", shown(value), field)

    @property
    def retention(self) -> str:
        """full, state, chunked, or the window's keep: peak, live, in_flight."""
        return (self.keep or "peak") if self.kind == "window" else self.kind
