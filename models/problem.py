"""The question: one file, one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from kvplan.models.base import BUILT_IN_PHASES, Frozen, Name, TextKeys, Title, Version
from kvplan.models.demands import Batch, Request
from kvplan.models.elastic import Choice, Consumer, Experts, Option, Prefill, Staging
from kvplan.models.errors import InvalidProblem
from kvplan.models.goals import Constraint, Fill, Goal
from kvplan.models.immutable.frozen_dict import FrozenDict, FrozenMapping
from kvplan.models.inputs import NumberLike, Written
from kvplan.models.json_schema import RELAXED_VARIABLE
from kvplan.models.measured.allowances import with_allowances
from kvplan.models.place import Place
from kvplan.models.pools import Cache, Pool
from kvplan.models.ranks import Rank, at_rank
from kvplan.models.reading.faults import faults_of
from kvplan.models.reading.loader import load_data, parse_text
from kvplan.models.reading.mistaken import other_document
from kvplan.models.reading.overrides import apply_overrides
from kvplan.models.reading.references import find_faults
from kvplan.models.units import Positive, Ratio
from kvplan.models.variants import Variant

EXAMPLE: dict[str, Any] = {
    "version": 1,
    "ranks": [{"name": "gpu", "quota": "24GiB"}],
    "pools": [{"name": "kv", "bytes": "2MiB"}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [
        {"name": "chat", "requests": [{"name": "long", "capacity": 32768, "fit": "capacity"}]}
    ],
    "prefill": {
        "requested": 8192,
        "min": 512,
        "step": 512,
        "staging": [{"name": "activations", "per_token": "160KiB"}],
    },
    "consumers": [{"name": "weights", "bytes": "15.3GiB"}],
    "goals": ["capacity:long", "prefill"],
}
"""A problem for the JSON Schema to show."""


class Problem(Frozen):
    """Everything an engine knows when it sizes its pools.

    Raises
    ------
    InvalidProblem : however it is built, with one fault for each mistake.
    """

    model_config = ConfigDict(
        json_schema_extra={"$id": "urn:kvplan:schema:problem:1", "examples": [EXAMPLE]}
    )

    version: Version = Field(default=1, description="of this format")
    name: Title = Field(default="", description="for people")
    ranks: tuple[Rank, ...] = Field(
        description="memory spaces with a quota", json_schema_extra={"minItems": 1}
    )
    tokens_per_block: Positive = Field(default=16, description="default for all caches")
    resume_utilization: Ratio = Field(
        default=Fraction(1), description="share of a pool in use when a request is admitted"
    )
    pools: tuple[Pool, ...] = Field(default=(), description="spaces of block ids")
    caches: tuple[Cache, ...] = Field(default=(), description="layers with one retention rule each")
    batches: tuple[Batch, ...] = Field(default=(), description="what must be servable at once")
    prefill: Prefill | None = Field(default=None, description="the prefill chunk and its staging")
    experts: Experts | None = Field(default=None, description="expert slots on the device")
    consumers: tuple[Consumer, ...] = Field(default=(), description="fixed consumers")
    choices: tuple[Choice, ...] = Field(default=(), description="one of several options each")
    constraints: tuple[Constraint, ...] = Field(
        default=(), description="linear, over the variables"
    )
    goals: tuple[Goal, ...] = Field(default=(), description="in order of priority")
    fill: Fill | None = Field(default=None, description="who gets the rest")
    place: Place | None = Field(
        default=None, description="layers and experts whose space is decided first"
    )
    relax: tuple[Name, ...] = Field(
        default=(),
        description="variables whose floors --advise may lower, the first one first",
        json_schema_extra={"items": {"type": "string", "pattern": RELAXED_VARIABLE}},
    )
    variants: tuple[Variant, ...] = Field(
        default=(), description="whole alternatives that an explanation tries"
    )
    labels: Annotated[FrozenMapping[str, str], TextKeys] = Field(
        default_factory=FrozenDict,
        description="a caller's names for remedies: a field's path -> a flag",
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            version: Literal[1] = 1,
            name: str = "",
            ranks: Sequence[Rank | Written],
            tokens_per_block: int = 16,
            resume_utilization: NumberLike = 1,
            pools: Sequence[Pool | Written] = (),
            caches: Sequence[Cache | Written] = (),
            batches: Sequence[Batch | Written] = (),
            prefill: Prefill | Written | None = None,
            experts: Experts | Written | None = None,
            consumers: Sequence[Consumer | Written] = (),
            choices: Sequence[Choice | Written] = (),
            constraints: Sequence[Constraint | Written] = (),
            goals: Sequence[Goal | str | Written] = (),
            fill: Fill | Literal["none"] | Written | None = None,
            place: Place | Written | None = None,
            relax: Sequence[str] = (),
            variants: Sequence[Variant | Written] = (),
            labels: Mapping[str, str] = ...,
        ) -> None: ...

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            problem = handler(data)
        except ValidationError as error:
            raise InvalidProblem(faults_of(error, cls)) from None
        faults = find_faults(problem)
        if faults:
            raise InvalidProblem(faults)
        if any(consumer.of is not None for consumer in problem.consumers):
            object.__setattr__(problem, "consumers", with_allowances(problem.consumers))
        return problem

    @classmethod
    def load(cls, source: str | Path, overrides: tuple[str, ...] = ()) -> Problem:
        """Read a JSON or YAML file ("-" is standard input).

        Parameters
        ----------
        overrides : "path=value" each, applied before validation ("ranks.*.quota=10GiB").

        Raises
        ------
        InvalidProblem : the file cannot be read, or every mistake that is in it.
        """
        data = load_data(source)
        other = other_document(data)
        if other is not None:
            name = "standard input" if source == "-" else str(source)
            raise InvalidProblem.at(name, "a problem", other)
        return cls.model_validate(apply_overrides(data, overrides))

    @classmethod
    def parse(cls, text: str) -> Problem:
        """Read JSON or YAML text."""
        return cls.model_validate(parse_text(text))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **_: Any) -> Problem:
        """Read JSON text by this format's rules: exact decimals, each key once."""
        return cls.model_validate(parse_text(json_data))

    @property
    def phases(self) -> tuple[str, ...]:
        """The built-in phases, then those that consumers and options name, as written."""
        living: list[Consumer | Option] = [*self.consumers]
        living += (option for choice in self.choices for option in choice.options)
        named = (phase for consumer in living for phase in consumer.phases or ())
        return tuple(dict.fromkeys((*BUILT_IN_PHASES, *named)))

    @property
    def stages(self) -> tuple[int, ...]:
        """Pipeline stages that have a rank."""
        return tuple(sorted({rank.stage for rank in self.ranks}))

    @property
    def has_auto_granules(self) -> bool:
        """Whether some allocation's granule follows the quota of its rank."""
        return any(buffer.granule == "auto" for pool in self.pools for buffer in pool.layout)

    @property
    def counts_running(self) -> bool:
        """Whether some consumer takes bytes for each running request on some rank."""
        for consumer in self.consumers:
            each = consumer.per_request
            if each and any(at_rank(each, rank) for rank in self.ranks):
                return True
        return False

    def context_of(self, entry: Staging) -> tuple[int, int] | None:
        """(batch, request) whose capacity a staging entry follows; None: there is no single one."""
        named = [
            (b, index)
            for b, batch in enumerate(self.batches)
            for index in range(len(batch.requests))
            if entry.request in (None, request_name(batch, index))
        ]
        return named[0] if len(named) == 1 else None

    def pool_of(self, cache: Cache) -> str:
        """Name of the pool a cache draws on."""
        return self.pools[0].name if cache.pool is None else cache.pool

    def block_tokens(self, cache: Cache) -> int:
        """Tokens that one block of a cache holds, over all its shards."""
        return (cache.tokens_per_block or self.tokens_per_block) * (cache.shards or 1)

    def fitted(self, what: str) -> dict[str, tuple[Batch, Request]]:
        """Requests whose capacity (or count) is fitted, by name, in the order written."""
        return {
            request_name(batch, index): (batch, request)
            for batch in self.batches
            for index, request in enumerate(batch.requests)
            if request.fit == what
        }


def as_problem(value: object) -> Problem:
    """The problem that a call was given.

    Raises
    ------
    InvalidProblem : it was given something else.
    """
    if isinstance(value, Problem):
        return value
    expected = "a Problem (Problem.load reads a file)"
    raise InvalidProblem.at("problem", expected, type(value).__name__)


def request_name(batch: Batch, index: int) -> str:
    """Name of a request: its own, or <batch>.<index>."""
    return batch.requests[index].name or f"{batch.name}.{index}"
