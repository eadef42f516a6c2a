"""The answer: one plan for all ranks, with its budget and its proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field, PrivateAttr

from kvplan.models.base import Frozen
from kvplan.models.errors import KvplanError
from kvplan.models.immutable.deferred import Deferred
from kvplan.models.immutable.frozen_dict import FrozenDict, FrozenMapping
from kvplan.models.inputs import QuotaLike
from kvplan.models.units import Computed

Solver = Literal["auto", "cp-sat", "bisect"]
"""auto: the search where it is a proof, else CP-SAT; cp-sat; bisect: the search alone."""
Source = Literal["declared", "measured", "estimated", "solved"]


class Asked(Frozen):
    """What a request wanted; count is None where it was left open."""

    capacity: int = Field(description="tokens")
    history: int = Field(description="tokens before those in flight")
    count: int | None = Field(description="alike requests; null: as many as fit")


class RequestPlan(Frozen):
    """What a request gets."""

    batch: str = Field(description="name of its batch")
    name: str = Field(description="name of the request")
    capacity: int = Field(description="tokens")
    history: int = Field(description="tokens before those in flight")
    count: int = Field(description="alike requests")
    requested: Asked = Field(description="what the problem asked for")
    reduced: bool = Field(description="whether capacity or count is below what was asked")


class LedgerLine(Frozen):
    """Bytes of one consumer on one rank, with where the figure comes from."""

    consumer: str = Field(description="pool, experts, staging, consumer, or a term of the quota")
    bytes: int = Field(description="bytes")
    source: Source = Field(description="where the figure comes from")
    phases: tuple[str, ...] = Field(
        default=(), description="where it lives; empty: a term of the quota"
    )
    note: str = Field(default="", description="what else there is to say of it")


class RankPlan(Frozen):
    """The budget of one rank, all figures in bytes."""

    name: str = Field(description="name of the rank")
    quota: int = Field(description="bytes that the plan may use")
    used: int = Field(description="bytes in use in the fullest phase")
    slack: int = Field(description="bytes of the quota that stay free there")
    bound: Literal["declared", "utilization", "physical"] = Field(
        description="what the quota is: declared, or the share of `memory` that was smaller"
    )
    phases: FrozenMapping[str, int] = Field(description="bytes in use by phase")
    ledger: tuple[LedgerLine, ...] = Field(description="every consumer of bytes, one line each")


class Binding(Frozen):
    """A rank and phase that keeps something from growing."""

    rank: str = Field(description="name of the rank")
    phase: str = Field(description="load, prefill, decode, or a phase of the problem")
    slack: int = Field(description="bytes free there")
    next: FrozenMapping[str, int] = Field(
        description="bytes that one step more of a variable would need"
    )


class SpacePlan(Frozen):
    """What a placement puts in one memory space; bytes unless they say otherwise."""

    name: str = Field(description="of the rank")
    first: int = Field(description="its first layer")
    layers: int = Field(description="layers, contiguous in model order")
    layer_bytes: int = Field(description="dense weights and ends")
    state_bytes: int = Field(description="fixed caches and states")
    experts: int = Field(description="expert tensors (or layers, or experts) that lie here")
    expert_bytes: int = Field(description="of them, copies on a mirroring host included")
    cache_bytes: int = Field(description="caches of its layers, as the placement needs them")
    buffer_bytes: int = Field(description="buffers once it is in use")
    picoseconds: int | None = Field(description="time a token reads here; None without bandwidths")


class PlacementPlan(Frozen):
    """Which layers and experts lie in which space."""

    spaces: tuple[SpacePlan, ...] = Field(description="in slice order")
    last: str = Field(description="the space of the output")
    experts: tuple[tuple[str, ...], ...] = Field(
        description="by layer, the space of each expert tensor"
    )
    picoseconds: int | None = Field(description="a token's time by the roofline")
    pipelined: bool = Field(default=False, description="the engine copies its inputs")
    context_tokens: int = Field(description="the longest request")
    proven: bool = Field(description="no placement is better")
    flags: tuple[str, ...] = Field(default=(), description="for the engine's command line")
    default: FrozenMapping[str, str] = Field(
        default_factory=FrozenDict, description="what the engine itself would choose"
    )
    notes: tuple[str, ...] = Field(default=(), description="what the figures leave out")


class GoalValue(Frozen):
    """A goal, what it reached, and the proven upper bound."""

    goal: str = Field(description="the goal as the problem writes it")
    value: Computed = Field(description="what the plan reaches")
    bound: Computed | None = Field(description="what no plan exceeds; null: none was proven")


class Proof(Frozen):
    """Who answered, what it proves, and how."""

    solver: Solver = Field(description="who answered")
    status: Literal["optimal", "feasible"] = Field(description="optimal: no better plan exists")
    bound: tuple[GoalValue, ...] = Field(description="every goal with value and upper bound")
    certificate: str = Field(
        description="nested (nested on <device>), cp-sat, cp-sat+nested, or search"
    )
    deterministic_time: float = Field(description="of CP-SAT, over all goals; 0 without it")
    replayed: bool = Field(
        default=False, description="whether the oracle replayed it block by block"
    )


Resize = Callable[["Plan", QuotaLike], "Plan"]


class Plan(Deferred):
    """Sizes for every rank; byte-exact, checked before it is returned."""

    model_config = ConfigDict(json_schema_extra={"$id": "urn:kvplan:schema:plan:1"})

    status: Literal["optimal", "feasible"] = Field(
        description="optimal: proven; feasible: the best that was found"
    )
    blocks: FrozenMapping[str, int] = Field(
        description="allocated blocks by pool, reserved ones included"
    )
    floors: FrozenMapping[str, int] = Field(description="smallest legal usable blocks by pool")
    prefill_chunk: int | None = Field(description="tokens of a chunk; null: no prefill section")
    expert_slots: int | None = Field(description="slots a layer; null: no experts section")
    expert_slots_in_prefill: int | None = Field(
        description="slots a layer that stay; the others are lent"
    )
    choices: FrozenMapping[str, str] = Field(description="chosen option by choice")
    copies: int | None = Field(
        description="whole copies of the fill batch; null: the fill names none"
    )
    scale: Computed | None = Field(
        default=None,
        description="how much of the fill mix fits, exact; null: the fill has no mix",
    )
    running: int | None = Field(
        default=None,
        description="requests that per_request bytes are there for; null: no consumer has any",
    )
    requests: tuple[RequestPlan, ...] = Field(description="every request, in the order written")
    ranks: tuple[RankPlan, ...] = Field(description="the budget of every rank")
    binding: tuple[Binding, ...] = Field(description="what keeps something from growing")
    notes: tuple[str, ...] = Field(description="one line for each value below what was asked")
    proof: Proof = Field(description="who answered, and what it proves")
    digest: str = Field(description="sha256 of the decision values")
    question: str = Field(default="", description="sha256 of the problem that was asked")
    placement: PlacementPlan | None = Field(
        default=None, description="which layers and experts lie where"
    )
    relaxed: tuple[str, ...] = Field(
        default=(),
        description="floors that were lowered (--advise): the plan is not what was asked for",
    )

    deferred_fields: ClassVar[frozenset[str]] = frozenset(
        {"floors", "requests", "ranks", "binding", "notes", "proof", "digest", "question"}
    )
    _resize: Resize | None = PrivateAttr(default=None)

    def resize(self, quota: QuotaLike) -> Plan:
        """Plan again for another quota: capacities, counts, floors and granules are held.

        Parameters
        ----------
        quota : bytes for every rank, or by rank name (ranks left out keep theirs).

        Raises
        ------
        Infeasible : the quota is below the floors; the shortfall is named.
        """
        if self._resize is None:
            raise KvplanError(
                "this plan was read from a file or sent here; solve its problem again to resize"
            )
        return self._resize(self, quota)
