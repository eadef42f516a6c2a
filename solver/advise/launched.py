"""What an engine prints for a problem: figures of its plan, or of its refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.solve.plan import plan

if TYPE_CHECKING:
    from kvplan.models.demands import Request
    from kvplan.models.engines.layers import Architecture
    from kvplan.models.engines.registry import Settings


class Launched(NamedTuple):
    """How a start ends.

    Attributes
    ----------
    figures : what the engine prints, by the words of its log.
    plan : what it allocates; None where it refuses to start.
    """

    figures: Mapping[str, str]
    plan: Plan | None


def launched(
    adapter: Any, architecture: Architecture, settings: Settings, problem: Problem
) -> Launched:
    """Plan the problem of an engine and take its figures from the answer."""
    try:
        answer = plan(problem)
    except Infeasible as refusal:
        if hasattr(adapter, "refusal"):
            return Launched(adapter.refusal(architecture, settings), None)
        return Launched({"refused": refusal.reasons[0], **largest_context(problem)}, None)
    return Launched(adapter.figures(architecture, settings, problem, answer), answer)


def largest_context(problem: Problem) -> dict[str, str]:
    """The longest requests that start, where every length may shrink; by label, as figures are."""
    requests = [
        [one.model_copy(update={"fit": "capacity"}) if _may_shrink(one) else one for one in each]
        for each in (batch.requests for batch in problem.batches)
    ]
    batches = [
        batch.model_copy(update={"requests": tuple(own)})
        for batch, own in zip(problem.batches, requests, strict=True)
    ]
    try:
        answer = plan(problem.model_copy(update={"batches": tuple(batches)}))
    except Infeasible as refusal:
        return {"largest context that starts": f"none: {refusal.reasons[0]} with the shortest"}
    reduced = {row.capacity: row for row in answer.requests if row.reduced}
    if not reduced:
        return {}
    return {"largest context that starts": f"{min(reduced)} tokens"}


def _may_shrink(request: Request) -> bool:
    return request.fit == "none" and request.least_capacity < request.capacity
