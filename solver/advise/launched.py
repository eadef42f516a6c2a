"""What an engine prints for a problem: figures of its plan, or of its refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.solve.plan import plan

if TYPE_CHECKING:
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
        return Launched({"refused": refusal.reasons[0]}, None)
    return Launched(adapter.figures(architecture, settings, problem, answer), answer)
