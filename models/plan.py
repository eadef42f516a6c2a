"""The answer: one plan for all ranks, with its budget and its proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field, PrivateAttr

from kvplan.models.base import Frozen
from kvplan.models.errors import KvplanError
from kvplan.models.immutable.deferred import Deferred
from kvplan.models.immutable.frozen_dict import FrozenMapping
from kvplan.models.inputs import QuotaLike
from kvplan.models.units import Computed

Solver = Literal["auto", "cp-sat", "bisect"]
"""auto: the search where it is a proof, else CP-SAT; cp-sat; bisect: the search alone."""
Source = Literal["declared", "measured", "estimated", "solved"]


class Asked(Frozen):
    """What a request wanted; count is None where it was left open."""

    capacity: int
    history: int
    count: int | None


class RequestPlan(Frozen):
    """What a request gets."""

    batch: str
    name: str
    capacity: int = Field(description="tokens")
    history: int = Field(description="tokens")
    count: int = Field(description="alike requests")
    requested: Asked
    reduced: bool = Field(description="whether capacity or count is below what was asked")


class LedgerLine(Frozen):
    """Bytes of one consumer on one rank, with where the figure comes from."""

    consumer: str
    bytes: int
    source: Source
    phases: tuple[str, ...] = Field(
        default=(), description="where it lives; empty: a term of the quota"
    )
    note: str = ""


class RankPlan(Frozen):
    """The budget of one rank, all figures in bytes."""

    name: str
    quota: int
    used: int = Field(description="largest over the phases")
    slack: int = Field(description="quota less used")
    bound: Literal["declared", "utilization", "physical"] = Field(
        description="what the quota is: declared, or the share of `memory` that was smaller"
    )
    phases: FrozenMapping[str, int] = Field(description="bytes in use by phase")
    ledger: tuple[LedgerLine, ...]


class Binding(Frozen):
    """A rank and phase that keeps something from growing."""

    rank: str
    phase: str
    slack: int = Field(description="bytes free there")
    next: FrozenMapping[str, int] = Field(
        description="bytes that one step more of a variable would need"
    )


class GoalValue(Frozen):
    """A goal, what it reached, and the proven upper bound."""

    goal: str
    value: Computed
    bound: Computed | None


class Proof(Frozen):
    """Who answered, what it proves, and how."""

    solver: Solver
    status: Literal["optimal", "feasible"]
    bound: tuple[GoalValue, ...] = Field(description="every goal with value and upper bound")
    certificate: str = Field(
        description="nested (nested on <device>), cp-sat, cp-sat+nested, or search"
    )
    deterministic_time: float = Field(description="of CP-SAT, over all goals; 0 without it")
    replayed: bool = Field(False, description="whether the oracle replayed it block by block")


Resize = Callable[["Plan", QuotaLike], "Plan"]


class Plan(Deferred):
    """Sizes for every rank; byte-exact, checked before it is returned."""

    model_config = ConfigDict(json_schema_extra={"$id": "urn:kvplan:schema:plan:1"})

    status: Literal["optimal", "feasible"]
    blocks: FrozenMapping[str, int] = Field(
        description="allocated blocks by pool, reserved ones included"
    )
    floors: FrozenMapping[str, int] = Field(description="smallest legal usable blocks by pool")
    prefill_chunk: int | None = Field(description="tokens")
    expert_slots: int | None = Field(description="a layer")
    expert_slots_in_prefill: int | None = Field(description="a layer; the others are lent")
    choices: FrozenMapping[str, str] = Field(description="chosen option by choice")
    copies: int | None = Field(description="whole copies of the fill batch")
    requests: tuple[RequestPlan, ...]
    ranks: tuple[RankPlan, ...]
    binding: tuple[Binding, ...]
    notes: tuple[str, ...]
    proof: Proof
    digest: str = Field(description="sha256 of the decision values")
    question: str = Field(default="", description="sha256 of the problem that was asked")
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
