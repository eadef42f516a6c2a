"""Placement: which layers and experts lie in which memory space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from kvplan.models.base import Frozen, Name, TextKeys, text_keys
from kvplan.models.immutable.frozen_dict import FrozenDict, FrozenMapping
from kvplan.models.inputs import BytesLike, NumberLike, Written
from kvplan.models.json_schema import NAME, RATE_OR_TIME, any_keys, bytes_input, several, whole
from kvplan.models.messages import Misfit, shown, within
from kvplan.models.units import (
    Demand,
    Portion,
    Positive,
    Rate,
    parse_bytes,
    parse_fraction,
    parse_integer,
)

PLACE_GOALS = ("speed", "layers_on_gpu", "experts_on_gpu")
"""Goals that a placement decides: picoseconds a token, and what does not lie on the host."""
PIPELINED, HOP = "pipelined", "hop"
Engine = Literal["none", "vllm", "sglang", "llama.cpp", "ik_llama.cpp", "ollama", "ktransformers"]
STAGED = ("vllm", "sglang")
"""Engines whose spaces are pipeline stages, with a layer on each."""
TENSORS = {1: ("gate_up_down",), 2: ("down", "gate_up"), 3: ("down", "gate", "up")}
_SECONDS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9}


def _caches(value: Any) -> Any:
    """Read a name, a list of names, or bytes of a block by name (None: the pool's)."""
    if value is None or isinstance(value, dict):
        return None if value is None else FrozenDict(text_keys(value))
    names = [value] if isinstance(value, str) else value
    listed = isinstance(names, list | tuple) and bool(names)
    if not listed or not all(isinstance(name, str) for name in names):
        raise Misfit("the name of a cache, a list of names, or bytes by name", shown(value))
    return FrozenDict(dict.fromkeys(names))


def _rate(value: Any) -> int:
    """Read bytes a second: "936GB/s", or a number."""
    text = value.strip().removesuffix("/s") if isinstance(value, str) else value
    try:
        rate = parse_bytes(text, round_up=False)
    except Misfit:
        rate = 0
    if rate < 1:
        raise Misfit('bytes a second, such as "936GB/s"', shown(value))
    return rate


def _picoseconds(value: Any) -> int:
    """Read a time: "20us", or picoseconds as a number."""
    if isinstance(value, str):
        unit = value.strip()[-2:]
        if unit not in _SECONDS:
            raise Misfit('a time such as "20us" (units ps, ns, us, ms)', shown(value))
        exact = parse_fraction(value.strip()[:-2].strip()) * _SECONDS[unit]
        if exact < 0:
            raise Misfit("a time of at least 0", shown(value))
        return -int(-exact // 1)
    return parse_integer(value, what="picoseconds")


def _read(value: Any) -> Any:
    keyed = text_keys(value)
    return FrozenDict(
        {
            key: within(key, _picoseconds if key == HOP else _rate, each)
            for key, each in keyed.items()
        }
    )


def _order(value: Any) -> Any:
    """Read a list of names, or any."""
    if value is None or value == "any":
        return value
    if not isinstance(value, list | tuple) or not value:
        raise Misfit('a list of ranks, or "any"', shown(value))
    return tuple(within(index, _name, name) for index, name in enumerate(value))


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit("the name of a rank", shown(value))
    return value


Caches = Annotated[
    FrozenMapping[str, Demand | None] | None,
    BeforeValidator(
        _caches,
        json_schema_input_type=NAME | several(NAME) | any_keys(bytes_input() | None) | None,
    ),
]
Read = Annotated[
    FrozenMapping[str, int],
    BeforeValidator(_read, json_schema_input_type=any_keys(whole(0) | RATE_OR_TIME)),
]
Order = Annotated[
    tuple[str, ...] | str | None,
    BeforeValidator(
        _order,
        json_schema_input_type=several(NAME) | Literal["any"] | None,
    ),
]


class LayerRun(Frozen):
    """Alike layers in a row."""

    count: Positive = Field(default=1, description="layers")
    dense: Demand = Field(default=0, description="bytes of the weights that stay with the layer")
    state: Demand = Field(
        default=0, description="bytes of a fixed cache or state; read once a token, as dense is"
    )
    experts: tuple[Demand, ...] = Field(
        default=(), description="bytes of each expert tensor, or of each expert (unit: expert)"
    )
    tensors: tuple[Name, ...] | None = Field(
        default=None, description="their names in flags; default down, gate, up"
    )
    active: Portion = Field(
        default=Fraction(1), description="share of an expert tensor that a token reads, as 8/128"
    )
    frequency: tuple[Portion, ...] | None = Field(
        default=None, description="unit expert: share of the tokens that read each one"
    )
    cache: Caches = Field(
        default=None, description="caches that the layer has a part of; bytes of its block by name"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            count: int = 1,
            dense: BytesLike = 0,
            state: BytesLike = 0,
            experts: Sequence[BytesLike] = (),
            tensors: Sequence[str] | None = None,
            active: NumberLike = 1,
            frequency: Sequence[NumberLike] | None = None,
            cache: str | Sequence[str] | Mapping[str, BytesLike | None] | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _alike(self) -> Self:
        for field in ("tensors", "frequency"):
            given = getattr(self, field)
            if given is not None and len(given) != len(self.experts):
                expected = f"one for each of {len(self.experts)} experts"
                raise Misfit(expected, str(len(given)), field)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the expert tensors in flags."""
        count = len(self.experts)
        default = TENSORS.get(count) or tuple(str(index) for index in range(count))
        return self.tensors or default


class End(Frozen):
    """What lies beside the first or the last layer."""

    bytes: Demand = Field(default=0, description="weights")
    spaces: tuple[Name, ...] | None = Field(
        default=None, description="the one space where it lies; default beside its layer"
    )

    if TYPE_CHECKING:

        def __init__(
            self, *, bytes: BytesLike = 0, spaces: Sequence[str] | None = None
        ) -> None: ...

    @model_validator(mode="after")
    def _one_space(self) -> Self:
        if self.spaces is not None and len(self.spaces) != 1:
            raise Misfit("one space, or none for beside its layer", str(len(self.spaces)), "spaces")
        return self


class DraftEnd(Frozen):
    """A draft's weights with its embedding copy (vLLM #46994), beside the last layer."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    bytes: Demand = Field(default=0, description="weights and its embedding")
    beside: Literal["last"] = Field(
        default="last", alias="with", description="which end it lies beside"
    )
    cache: Caches = Field(default=None, description="its caches; bytes of a block by name")

    if TYPE_CHECKING:

        def __init__(
            self, *, bytes: BytesLike = 0, cache: str | Mapping[str, BytesLike | None] | None = None
        ) -> None: ...


class Ends(Frozen):
    """Embedding, output and draft."""

    first: End = Field(default=End.model_construct(), description="the embedding")
    last: End = Field(default=End.model_construct(), description="norm and output")
    draft: DraftEnd = Field(default=DraftEnd.model_construct(), description="a draft")


class Used(Frozen):
    """Buffers of a space once it holds a layer or an expert."""

    base: Demand = Field(default=0, description="bytes")
    per_token: Rate = Field(default=Fraction(0), description="bytes a token of the context; exact")

    if TYPE_CHECKING:

        def __init__(self, *, base: BytesLike = 0, per_token: NumberLike = 0) -> None: ...


class Place(Frozen):
    """Contiguous slices of layers on memory spaces, experts apart."""

    engine: Engine = Field(default="none", description="whose rules and flags")
    order: Order = Field(
        default=None, description="ranks in slice order; default as written, any: free (stages)"
    )
    host: Name | None = Field(default=None, description="the rank that is no card")
    layers: tuple[LayerRun, ...] = Field(
        description="run by run, in model order", json_schema_extra={"minItems": 1}
    )
    ends: Ends = Field(default=Ends.model_construct(), description="embedding, output, draft")
    experts: Literal["own", "next", "any", "none"] = Field(
        default="own", description="where experts may lie beside the host; none: part of dense"
    )
    unit: Literal["tensor", "layer", "expert"] = Field(
        default="tensor", description="what of the experts moves as one"
    )
    mirror: StrictBool = Field(
        default=False,
        description="true: experts on a card stay on the host as well (ktransformers)",
    )
    used: Annotated[FrozenMapping[str, Used], TextKeys] = Field(
        default_factory=FrozenDict,
        description="buffers by rank; pipelined: in place of per_token, all on cards, no override",
    )
    read: Read = Field(
        default_factory=FrozenDict, description="bytes a second by rank, and hop: a time"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            engine: Engine = "none",
            order: Sequence[str] | Literal["any"] | None = None,
            host: str | None = None,
            layers: Sequence[LayerRun | Written],
            ends: Ends | Written = ...,
            experts: Literal["own", "next", "any", "none"] = "own",
            unit: Literal["tensor", "layer", "expert"] = "tensor",
            mirror: bool = False,
            used: Mapping[str, Used | Written] = ...,
            read: Mapping[str, BytesLike] = ...,
        ) -> None: ...

    @property
    def has_experts_apart(self) -> bool:
        """Whether experts may lie elsewhere than their layer."""
        return self.experts != "none" and any(run.experts for run in self.layers)

    @property
    def is_staged(self) -> bool:
        """Whether every layer lies whole on a stage, and every stage holds one."""
        return self.host is None and not self.has_experts_apart

    @property
    def count(self) -> int:
        """Layers."""
        return sum(run.count for run in self.layers)

    @property
    def each(self) -> tuple[LayerRun, ...]:
        """The run of each layer, in model order."""
        return tuple(run for run in self.layers for _ in range(run.count))
