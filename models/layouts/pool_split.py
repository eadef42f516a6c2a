"""The answer for an engine with separate pools: how its bytes are split, by rule and at best."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from kvplan.models.base import Frozen
from kvplan.models.immutable.frozen_dict import FrozenMapping
from kvplan.models.layouts.chosen import ProblemFile
from kvplan.models.units import Computed


class SplitRequest(Frozen):
    """Requests of one length in the workload."""

    capacity: int = Field(description="tokens, prompt and output")
    share: Computed = Field(description="of all requests")


class Split(Frozen):
    """One split of the bytes."""

    name: str = Field(description="who makes it")
    flags: FrozenMapping[str, str] = Field(description="ratios and counts that give it, by flag")
    tokens: FrozenMapping[str, int] = Field(description="by pool; slots of a state pool")
    bytes: FrozenMapping[str, int] = Field(description="by pool, on the first rank")
    requests: Computed = Field(description="of the workload at once; a fraction of one, too")


class PoolSplit(Frozen):
    """SGLang's pools for a workload: its ratio, the best split, and the flags that give it."""

    model_config = ConfigDict(json_schema_extra={"$id": "urn:kvplan:schema:pool-split:1"})

    name: str = Field(description="model and engine")
    workload: tuple[SplitRequest, ...] = Field(description="lengths and their shares")
    engine: Split | None = Field(description="by the engine's own rule; None: it refuses to start")
    best: Split = Field(description="the most of the workload, with free pools; proven")
    pasted: Split | None = Field(
        description="by the engine's rule with the flags to paste; None: its own are the best"
    )
    left_out: tuple[str, ...] = Field(description="what is not counted")
    status: Literal["optimal", "feasible"] = Field(description="of the best split")
    problem: ProblemFile = Field(description="of the best split, for kvplan solve")

    @property
    def paste(self) -> str:
        """Flags as one line; empty where the engine's own split is the best."""
        flags = self.pasted.flags if self.pasted is not None else {}
        return " ".join(f"{flag} {value}" for flag, value in flags.items())
