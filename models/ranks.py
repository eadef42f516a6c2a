"""Ranks: memory spaces with a quota, declared or derived from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kvplan.models.base import ByStage, Frozen, Name, TextKeys
from kvplan.models.errors import InvalidProblem
from kvplan.models.immutable.frozen_dict import FrozenDict, FrozenMapping
from kvplan.models.inputs import BytesLike, NumberLike, Written
from kvplan.models.json_schema import any_of, bytes_input, given, given_as, one_of, when
from kvplan.models.measured.device import read_device
from kvplan.models.messages import Misfit, shown
from kvplan.models.reading.faults import faults_of
from kvplan.models.units import Demand, Portion, Ratio, Supply, Whole, parse_bytes


class Share(Frozen):
    """A term written as a share: of the rank's total memory, or (graphs) of what is usable."""

    fraction: Portion = Field(description="from 0 to 1")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            fraction: NumberLike,
        ) -> None: ...

    def of(self, whole_bytes: int) -> int:
        """Bytes of this share of a whole, rounded up."""
        exact = self.fraction * whole_bytes
        return -(-exact.numerator // exact.denominator)


def _term(*words: str) -> Callable[[Any], int | str | Share]:
    """Make a reader of bytes, {fraction} of total, or one of some words."""

    def read(value: Any) -> int | str | Share:
        if isinstance(value, Share) or (isinstance(value, str) and value in words):
            return value
        if isinstance(value, dict):
            return Share.model_validate(value)
        try:
            return parse_bytes(value, round_up=True)
        except Misfit as error:
            forms = ["{fraction: ...}", *(f'"{word}"' for word in words)]
            raise Misfit(f"{', '.join(forms)}, or {error.expected}", shown(value)) from None

    return read


Margin = Annotated[
    int | Share, BeforeValidator(_term(), json_schema_input_type=bytes_input() | Share)
]
Headroom = Annotated[
    int | Share | Literal["from_staging"],
    BeforeValidator(
        _term("from_staging"),
        json_schema_input_type=bytes_input() | Share | Literal["from_staging"],
    ),
]


Reading = Literal["total", "free", "peak_torch", "non_torch"]
"""What a start measures and a caller may have estimated."""


def _overridden(terms: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of the device that the caller overrides, by field of `DeviceReading`.

    Raises
    ------
    InvalidProblem : one is not a byte figure.
    """
    found = {}
    for name in ("total", "free"):
        if terms.get(name) is not None:
            try:
                found[f"{name}_bytes"] = parse_bytes(terms[name], round_up=False)
            except Misfit as error:
                raise InvalidProblem.at(name, error.expected, error.got) from None
    return found


class RankMemory(Frozen):
    """What one rank measured after load; the quota follows from it (ROCm/ATOM PR #1495, #3171)."""

    model_config = ConfigDict(
        json_schema_extra={
            **any_of("utilization", "free"),
            "allOf": [
                when(given("utilization"), any_of("total", "free")),
                when(given_as("safety", {"type": "object"}), given("total")),
                when(given_as("prefill_headroom", {"type": "object"}), given("total")),
            ],
        }
    )

    total: Supply | None = Field(
        default=None, description="bytes of the device, as the driver reports"
    )
    free: Supply | None = Field(default=None, description="bytes free on the device at the reading")
    utilization: Ratio | None = Field(
        default=None, description="share of total the engine may use; without a total, of free"
    )
    peak_torch: Demand = Field(
        default=0, description="allocator peak: weights, buffers, activations"
    )
    non_torch: Demand = Field(default=0, description="device bytes in use outside the allocator")
    graphs: Margin = Field(
        default=0,
        description="estimate of the captured graphs, bytes or {fraction} of what is usable",
    )
    safety: Margin = Field(default=0, description="margin, bytes or {fraction} of total")
    connector: Demand = Field(default=0, description="reserve of a KV connector; off both shares")
    prefill_headroom: Headroom = Field(
        default=0, description="off the physical share: bytes, {fraction} of total, or from_staging"
    )
    other: Annotated[FrozenMapping[str, Demand], TextKeys] = Field(
        default_factory=FrozenDict, description="further terms by name; off the utilization share"
    )
    estimated: tuple[Reading, ...] = Field(
        default=(), description="which of total, free, peak_torch, non_torch nobody measured"
    )
    ranges: Annotated[FrozenMapping[str, str], TextKeys] = Field(
        default_factory=FrozenDict,
        description="of an estimated term, by its name: the range that it lies in, as text",
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            total: BytesLike | None = None,
            free: BytesLike | None = None,
            utilization: NumberLike | None = None,
            peak_torch: BytesLike = 0,
            non_torch: BytesLike = 0,
            graphs: BytesLike | Share | Written = 0,
            safety: BytesLike | Share | Written = 0,
            connector: BytesLike = 0,
            prefill_headroom: BytesLike | Share | Written = 0,
            other: Mapping[str, BytesLike] = ...,
            estimated: Sequence[Reading] = (),
            ranges: Mapping[str, str] = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _needs_a_share(self) -> Self:
        if self.utilization is None and self.free is None:
            raise Misfit("utilization (with total) or free", "neither")
        shares = isinstance(self.safety, Share) or isinstance(self.prefill_headroom, Share)
        if self.total is None and (self.free is None or shares):
            raise Misfit("total beside a utilization or a fraction", "none", "total")
        for name in ("free", "peak_torch", "non_torch", "graphs"):
            reading = getattr(self, name)
            if isinstance(reading, Share) or self.total is None or reading is None:
                continue
            if reading > self.total:
                raise Misfit(f"{name} of at most total {self.total}", str(reading), name)
        return self

    @classmethod
    def measure(cls, device: Any = None, **terms: Any) -> RankMemory:
        """Read total, free, peak_torch and non_torch of a device through torch (CUDA or ROCm).

        non_torch = (total - free) - what the allocator reserved; peak_torch = the allocator's
        peak since it was last reset, or what it holds now if that is more (ROCm/ATOM #1649).
        Call it after the warm-up forward, with the peak reset just before it; cached blocks count
        as in use, so `torch.cuda.empty_cache()` before the reading gives a truer `free`.

        Parameters
        ----------
        device : as torch takes it; default: the current one.
        terms : the other fields (utilization, safety, graphs, ...), or a reading to override: it
            replaces the device's reading before anything is derived from it.

        Raises
        ------
        InvalidProblem : no device, or readings that contradict each other; nothing is clamped.
        ImportError : torch is not installed.
        """
        reading = read_device(device)._replace(**_overridden(terms))
        readings = {
            "total": reading.total_bytes,
            "free": reading.free_bytes,
            "peak_torch": reading.peak_bytes,
        }
        if "non_torch" not in terms:
            readings["non_torch"] = reading.outside_bytes
        try:
            return cls.model_validate({**readings, **terms})
        except ValidationError as error:
            raise InvalidProblem(faults_of(error, cls)) from None

    def _bytes(self, term: int | Share) -> int:
        return term.of(self.total or 0) if isinstance(term, Share) else term

    @property
    def safety_bytes(self) -> int:
        """The safety margin in bytes."""
        return self._bytes(self.safety)

    @property
    def headroom_bytes(self) -> int:
        """The prefill headroom in bytes; 0 when it is derived from the staging."""
        return 0 if self.prefill_headroom == "from_staging" else self._bytes(self.prefill_headroom)

    @property
    def graphs_bytes(self) -> int:
        """The graphs in bytes; a fraction is of what every other term leaves (HabanaAI/vllm-fork).

        VLLM_GRAPH_RESERVED_MEM: usable = free x utilization, graphs = fraction x usable.
        """
        if not isinstance(self.graphs, Share):
            return self.graphs
        return self.graphs.of(max(0, self._usable or 0))

    @property
    def budget_bytes(self) -> int | None:
        """floor(total x utilization), without a total of free; None without a utilization."""
        base = self.free if self.total is None else self.total
        if self.utilization is None or base is None:
            return None
        return int((Fraction(base) * self.utilization) // 1)

    @property
    def _usable(self) -> int | None:
        """What the budget leaves when everything but the graphs is charged."""
        if self.budget_bytes is None:
            return None
        charged = self.peak_torch + self.non_torch + self.safety_bytes + self.connector
        return self.budget_bytes - charged - sum(self.other.values())

    @property
    def utilization_share(self) -> int | None:
        """The budget less every charged term, in bytes; may be negative."""
        return None if self._usable is None else self._usable - self.graphs_bytes

    @property
    def physical_share(self) -> int | None:
        """free less connector less headroom, in bytes; may be negative."""
        return None if self.free is None else self.free - self.connector - self.headroom_bytes


class Rank(Frozen):
    """A memory space with a quota: a GPU's rank, or a host tier as a stage of its own."""

    model_config = ConfigDict(json_schema_extra=one_of("quota", "memory"))

    name: Name = Field(description="unique among the ranks")
    stage: Whole = Field(default=0, description="pipeline stage")
    quota: Supply | None = Field(default=None, description="bytes for all pools and consumers here")
    memory: RankMemory | None = Field(
        default=None, description="the readings to derive the quota from"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            stage: int = 0,
            quota: BytesLike | None = None,
            memory: RankMemory | Written | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.quota is None) == (self.memory is None):
            got = "neither" if self.quota is None else "both"
            raise Misfit("either quota or memory", got)
        return self

    @property
    def quota_bytes(self) -> int:
        """The quota: declared, or the smaller of the two shares of `memory`."""
        if self.quota is not None:
            return self.quota
        assert self.memory is not None
        shares = (self.memory.utilization_share, self.memory.physical_share)
        return min(share for share in shares if share is not None)


def at_rank(value: ByStage, rank: Rank) -> int:
    """Bytes on a rank of a figure by stage or by rank name; the rank's own name wins."""
    if isinstance(value, int):
        return value
    return value.get(rank.name, value.get(str(rank.stage), 0))
