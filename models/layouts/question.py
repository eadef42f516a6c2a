"""The layout question: buckets of layers, the requests that count, and what is permitted."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    ValidationError,
    model_validator,
)

from kvplan.models.base import Frozen, Name, Title, Version
from kvplan.models.errors import InvalidProblem
from kvplan.models.inputs import NumberLike, Written
from kvplan.models.layouts.bucket import Bucket
from kvplan.models.layouts.contradictions import contradictions
from kvplan.models.messages import Misfit
from kvplan.models.ranks import Rank
from kvplan.models.reading.faults import faults_of, first_faults
from kvplan.models.reading.loader import load_data
from kvplan.models.reading.overrides import apply_overrides
from kvplan.models.units import Positive, Rate, Whole

EXAMPLE: dict[str, Any] = {
    "version": 1,
    "buckets": [
        {"name": "full", "kind": "full", "layers": 16, "token_bytes": 4096},
        {"name": "gdn", "kind": "state", "blocks": 2, "layers": 48, "state_bytes": "3MiB"},
    ],
    "requests": [{"capacity": 65536}],
}


class LaidRequest(Frozen):
    """One request of the workload."""

    capacity: Positive = Field(description="tokens held")
    weight: Rate = Field(
        default=Fraction(1), description="its share of the workload; copies: how many, whole"
    )

    if TYPE_CHECKING:

        def __init__(self, *, capacity: int, weight: NumberLike = 1) -> None: ...

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if not self.weight:
            raise Misfit("a weight above 0", "0", "weight")
        return self


class Rules(Frozen):
    """vLLM's own rules, which the best layout is compared with."""

    version: Name = Field(default="0.33.0", description="of vLLM, 0.19 to 0.33")
    group_layers: Whole = Field(default=0, description="width that a patched build fixes; 0: none")
    compact_windows: StrictBool = Field(
        default=False, description="a patched build splits the page of a window (1Cat-vLLM)"
    )

    if TYPE_CHECKING:

        def __init__(
            self, *, version: str = ..., group_layers: int = 0, compact_windows: bool = False
        ) -> None: ...


class LayoutQuestion(Frozen):
    """How the caches of a hybrid model share pages: every layout that is permitted."""

    model_config = ConfigDict(
        json_schema_extra={"$id": "urn:kvplan:schema:layout:1", "examples": [EXAMPLE]}
    )

    version: Version = Field(default=1, description="of this format")
    name: Title = Field(default="", description="for reports")
    buckets: tuple[Bucket, ...] = Field(
        description="layers by retention rule and page", json_schema_extra={"minItems": 1}
    )
    requests: tuple[LaidRequest, ...] = Field(
        description="the workload: one longest request, or a mix",
        json_schema_extra={"minItems": 1},
    )
    objective: Literal["bytes", "copies"] = Field(
        default="bytes",
        description="least bytes of the workload, or most copies of it within the quotas",
    )
    ranks: tuple[Rank, ...] = Field(default=(), description="quotas, for copies and for figures")
    reserved_blocks: Whole = Field(
        default=0, description="of the shared pool, allocated and never usable (null block)"
    )
    pages: Literal["uniform", "packed"] = Field(
        default="uniform",
        description="one page and one width for all groups, or pages of several sizes in a block",
    )
    share_groups: StrictBool = Field(
        default=False, description="whether buckets with one retention rule may share groups"
    )
    max_groups: Positive | None = Field(
        default=None, description="most groups (block tables), own pools included"
    )
    max_prefix_tokens: Positive | None = Field(
        default=None,
        description="coarsest prefix-cache granularity: lcm of all block tokens, shards included",
    )
    engine: Rules | None = Field(
        default=None, description="vLLM's rules to compare with; left out: none"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            version: Literal[1] = 1,
            name: str = "",
            buckets: Sequence[Bucket | Written],
            requests: Sequence[LaidRequest | Written],
            objective: Literal["bytes", "copies"] = "bytes",
            ranks: Sequence[Rank | Written] = (),
            reserved_blocks: int = 0,
            pages: Literal["uniform", "packed"] = "uniform",
            share_groups: bool = False,
            max_groups: int | None = None,
            max_prefix_tokens: int | None = None,
            engine: Rules | Written | None = None,
        ) -> None: ...

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            question = handler(data)
        except ValidationError as error:
            raise InvalidProblem(faults_of(error, cls)) from None
        faults = first_faults(contradictions(question))
        if faults:
            raise InvalidProblem(faults)
        return question

    @classmethod
    def load(cls, source: str | Path, overrides: tuple[str, ...] = ()) -> LayoutQuestion:
        """Read a JSON or YAML file ("-" is standard input); overrides are "path=value" each.

        Raises
        ------
        InvalidProblem : the file cannot be read, or every mistake that is in it.
        """
        return cls.model_validate(apply_overrides(load_data(source), overrides))

    @property
    def stages(self) -> tuple[int, ...]:
        """Pipeline stages that hold a layer."""
        return tuple(sorted({stage for bucket in self.buckets for stage in bucket.by_stage}))

    def bucket(self, name: str) -> Bucket:
        """The bucket of a name."""
        return next(bucket for bucket in self.buckets if bucket.name == name)

    @property
    def longest(self) -> LaidRequest:
        """The request with the most tokens."""
        return max(self.requests, key=lambda request: request.capacity)

    def quota_of(self, stage: int) -> int | None:
        """Bytes of the poorest rank of a stage; None without one."""
        quotas = [rank.quota_bytes for rank in self.ranks if rank.stage == stage]
        return min(quotas, default=None)
