"""The answer to a layout question: the layout, its figures, what it is compared with, the proof."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainSerializer

from kvplan.models.base import Frozen
from kvplan.models.immutable.frozen_dict import FrozenMapping
from kvplan.models.layouts.page_layout import PageLayout
from kvplan.models.problem import Problem
from kvplan.models.units import Computed


def _file(problem: Problem) -> dict[str, Any]:
    """Write a problem as its file: what was not given stays out."""
    return {"version": 1, **problem.model_dump(mode="json", exclude_unset=True)}


ProblemFile = Annotated[Problem, PlainSerializer(_file, return_type=dict[str, Any])]
"""A problem in an answer; `kvplan schema` describes it."""


class BucketFigures(Frozen):
    """What one bucket takes in a layout, on the fullest rank."""

    bucket: str = Field(description="name of the bucket")
    pool: str = Field(description="pool that it draws on")
    layers: int = Field(description="of all stages")
    groups: int = Field(description="that hold some of its layers")
    block_tokens: int = Field(description="tokens of a block on one shard; 0 for states")
    split: Computed = Field(description="the engine's block tokens over these; 1 for states")
    page_bytes: int = Field(description="of one layer's page before padding")
    padding_bytes: int = Field(description="of one page, up to the common page")
    padded_layers: int = Field(description="slots of its groups that no layer uses")
    blocks: int = Field(description="of the longest request, over its groups")
    waste_bytes: Computed = Field(
        description="of the workload: bytes of its groups' blocks beyond what its tokens need"
    )


class LayoutFigures(Frozen):
    """What a layout comes to, on the fullest rank where stages differ."""

    bytes: Computed = Field(description="of the declared workload")
    request_bytes: int = Field(description="of the longest request")
    blocks: int = Field(description="of the longest request, over all groups and pools")
    groups: int = Field(description="block tables of a request, own pools included")
    block_bytes: int = Field(description="of one block of the shared pool")
    page_bytes: int | None = Field(description="the common page; None where pages differ")
    padded_layers: int = Field(description="slots of the shared pool's groups without a layer")
    waste_bytes: Computed = Field(description="of the workload: beyond what its tokens need")
    table_bytes: int = Field(
        description="block tables of the longest request: 4 B an entry, one table a group"
    )
    slot_bytes: int = Field(
        description="slot mappings of one scheduled token: 8 B for each group that holds tokens"
    )
    prefix_tokens: int = Field(
        description="prefix-cache granularity: lcm of the block tokens, shards included; 0: none"
    )
    tokens: int | None = Field(
        default=None, description="at the quota: concurrency x the longest request, rounded down"
    )
    concurrency: Computed | None = Field(
        default=None, description="at the quota: longest requests that fit at once, a fraction"
    )
    copies: int | None = Field(default=None, description="whole workloads within the quota")
    buckets: tuple[BucketFigures, ...] = Field(description="by bucket")


class Compared(Frozen):
    """A layout to compare with: the engine's own."""

    name: str = Field(description="whose rules")
    layout: PageLayout = Field(description="as its rules make it")
    figures: LayoutFigures = Field(description="by the same arithmetic")
    ratio: Computed = Field(description="bytes of its workload over the best layout's")


class Freedom(Frozen):
    """What other permissions would give."""

    permission: str = Field(description="what is granted, or capped, beside the question's own")
    bytes: Computed = Field(description="of the workload in the best layout then")
    groups: int = Field(description="of that layout")
    copies: int | None = Field(default=None, description="within the quotas, where there are some")


class LayoutProof(Frozen):
    """Why no permitted layout is better."""

    status: Literal["optimal"] = "optimal"
    certificate: str = Field(
        description="enumerated, or enumerated+cp-sat where groups were packed by CP-SAT"
    )
    bound: Computed = Field(description="no permitted layout takes less (copies: holds more)")
    floor_bytes: Computed = Field(
        description="bytes of the workload's tokens and states alone, below any layout"
    )
    candidates: int = Field(
        description="pages x widths that the permissions span (packed: groups x block tokens)"
    )
    evaluated: int = Field(description="layouts whose bytes were computed")
    pruned: FrozenMapping[str, int] = Field(description="layouts ruled out unseen, by reason")


class LayoutAnswer(Frozen):
    """The best permitted layout, proven."""

    model_config = ConfigDict(json_schema_extra={"$id": "urn:kvplan:schema:layout-answer:1"})

    name: str = Field(default="", description="the question's")
    layout: PageLayout = Field(description="the best one")
    figures: LayoutFigures = Field(description="what it comes to")
    engine: Compared | None = Field(default=None, description="the engine's own layout")
    freedom: tuple[Freedom, ...] = Field(default=(), description="under other permissions")
    fewer_groups: tuple[Freedom, ...] = Field(
        default=(), description="the best within fewer and fewer groups: each costs bytes"
    )
    proof: LayoutProof = Field(description="bound, certificate, and what was enumerated")
    problem: ProblemFile = Field(description="of the chosen layout, for kvplan solve")

    @property
    def saved_share(self) -> Fraction | None:
        """Share of the engine's bytes that the layout saves; None without an engine."""
        return None if self.engine is None else 1 - 1 / self.engine.ratio
