"""What an engine prints for a problem: figures of its plan, or of its refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.solve.plan import plan

if TYPE_CHECKING:
    from kvplan.models.demands import Request
    from kvplan.models.engines.layers import Architecture
    from kvplan.models.engines.registry import Settings

LARGEST = "largest context that starts"


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
        longest = largest_context(problem)
        if hasattr(adapter, "at_context") and problem.place is None:
            at = partial(adapter.at_context, architecture, settings)
            if _is_rebuilt(at, problem):
                longest = largest_rebuilt(at, problem)
        return Launched({"refused": refusal.reasons[0], **longest}, None)
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
        return {LARGEST: f"none: {refusal.reasons[0]} with the shortest"}
    reduced = {row.capacity: row for row in answer.requests if row.reduced}
    if not reduced:
        return {}
    return {LARGEST: f"{min(reduced)} tokens"}


def largest_rebuilt(at: Callable[[int], Problem], asked: Problem) -> dict[str, str]:
    """As `largest_context`, where what a start charges depends on the context.

    Parameters
    ----------
    at : the problem with a context of so many blocks; one that fits stays so with fewer.
    asked : the problem that does not fit.
    """
    try:
        plan(at(1))
    except Infeasible as refusal:
        return {LARGEST: f"none: {refusal.reasons[0]} with the shortest"}
    fits, fails = 1, _blocks(asked)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if _starts(at(middle)):
            fits = middle
        else:
            fails = middle
    return {LARGEST: f"{_capacity(at(fits))} tokens"}


def _is_rebuilt(at: Callable[[int], Problem], asked: Problem) -> bool:
    """Whether rebuilding gives what was asked: no variant or field lies over it."""
    again = at(_blocks(asked))
    return all(
        getattr(again, name) == getattr(asked, name) for name in ("ranks", "pools", "batches")
    )


def _blocks(problem: Problem) -> int:
    return -(-_capacity(problem) // problem.tokens_per_block)


def _starts(problem: Problem) -> bool:
    try:
        plan(problem)
    except Infeasible:
        return False
    return True


def _capacity(problem: Problem) -> int:
    return max(request.capacity for batch in problem.batches for request in batch.requests)


def _may_shrink(request: Request) -> bool:
    return request.fit == "none" and request.least_capacity < request.capacity
