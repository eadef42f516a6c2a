"""Ranks: memory spaces with a quota, declared or derived from what was measured."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from kvplan.models.base import Frozen, Name
from kvplan.models.units import Demand, Exact, Supply, Whole


class Share(Frozen):
    """A term written as a share of the rank's total memory."""

    fraction: Exact = Field(ge=0, le=1, description="share of total, from 0 to 1")

    def of(self, total_bytes: int) -> int:
        """Bytes of this share of the total; what is left of a byte counts as taken."""
        exact = self.fraction * total_bytes
        return -(-exact.numerator // exact.denominator)



class RankMemory(Frozen):
    """What one rank measured after load; the quota follows from it (ROCm/ATOM PR #1495, #3171)."""

    total: Supply | None = Field(None, description="bytes of the device, as the driver reports")
    free: Supply | None = Field(None, description="bytes free on the device at the reading")
    utilization: Exact | None = Field(
        None, gt=0, le=1, description="share of total that the engine may use"
    )
    peak_torch: Demand = Field(0, description="allocator peak: weights, buffers, activations")
    non_torch: Demand = Field(0, description="device bytes in use outside the allocator")
    graphs: Demand = Field(0, description="estimate of the captured graphs")
    safety: Demand | Share = Field(0, description="margin, bytes or {fraction} of total")
    connector: Demand = Field(0, description="reserve of a KV connector; off both shares")
    prefill_headroom: Demand | Share | Literal["from_staging"] = Field(
        0, description="off the physical share: bytes, {fraction} of total, or from_staging"
    )
    other: dict[Name, Demand] = Field(
        default_factory=dict, description="further terms by name; off the utilization share"
    )

    @model_validator(mode="after")
    def _needs_a_share(self) -> Self:
        if self.utilization is None and self.free is None:
            raise ValueError("expected utilization (with total) or free, got neither")
        shares = isinstance(self.safety, Share) or isinstance(self.prefill_headroom, Share)
        if self.total is None and (self.utilization is not None or shares):
            raise ValueError("expected total beside a utilization or a fraction, got none")
        if self.total is not None and self.free is not None and self.free > self.total:
            raise ValueError(f"expected free of at most total {self.total}, got {self.free}")
        return self

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
    def utilization_share(self) -> int | None:
        """floor(total x utilization) less every charged term, in bytes; may be negative."""
        if self.utilization is None or self.total is None:
            return None
        budget = int((Fraction(self.total) * self.utilization) // 1)
        charged = self.peak_torch + self.non_torch + self.graphs + self.safety_bytes
        return budget - charged - self.connector - sum(self.other.values())

    @property
    def physical_share(self) -> int | None:
        """free less connector less headroom, in bytes; may be negative."""
        return None if self.free is None else self.free - self.connector - self.headroom_bytes


class Rank(Frozen):
    """A memory space with a quota: a GPU's rank, or a host tier as a stage of its own."""

    name: Name = Field(description="unique among the ranks")
    stage: Whole = Field(0, description="pipeline stage")
    quota: Supply | None = Field(None, description="bytes for all pools and consumers here")
    memory: RankMemory | None = Field(None, description="the readings to derive the quota from")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.quota is None) == (self.memory is None):
            got = "neither" if self.quota is None else "both"
            raise ValueError(f"expected either quota or memory, got {got}")
        return self

    @property
    def quota_bytes(self) -> int:
        """The quota: declared, or the smaller of the two shares of `memory`."""
        if self.quota is not None:
            return self.quota
        assert self.memory is not None
        shares = (self.memory.utilization_share, self.memory.physical_share)
        return min(share for share in shares if share is not None)
