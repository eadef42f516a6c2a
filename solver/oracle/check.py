"""Replay a plan at full size: every rule it breaks, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from kvplan.models.messages import shown
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.models.reading.faults import faults_of
from kvplan.solver.oracle import plan_figures, rules
from kvplan.solver.oracle.replay import Replay
from kvplan.solver.oracle.share_caps import shares


class Violation(NamedTuple):
    """A rule that a plan breaks, where, and how."""

    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.text}"


def check(problem: Problem, plan: Plan) -> list[Violation]:
    """Replay a plan, at any size.

    Types are checked first, then names: without them nothing can be replayed. Then requests, chunk,
    options and slots are checked against what the problem allows. Where they are valid, what they
    decide is replayed: blocks by simulating every request, bytes by laying out every allocation.

    Returns
    -------
    Every violation found; empty for a plan that keeps all rules and whose figures are right. A
    malformed plan is reported, not raised.
    """
    if problem.place is not None:
        text = "expected the problem that a placement leaves; kvplan verify checks both"
        return [Violation("place", "place", text)]
    found = [*_malformed(plan)] or _violations(problem, plan)
    return [Violation(*violation) for violation in found]


def _malformed(plan: Plan) -> Iterator[rules.Found]:
    """Fields with a value of the wrong type, which copies and `model_construct` allow."""
    try:
        Plan.model_validate(plan.model_dump(mode="json", warnings=False))
    except ValidationError as error:
        for fault in faults_of(error, Plan):
            yield "type", fault.path, f"expected {fault.expected}, got {fault.got}"
    except (TypeError, ValueError, AttributeError, PydanticSerializationError) as error:
        yield "type", "plan", f"expected a Plan, got {shown(error)}"


def _violations(problem: Problem, plan: Plan) -> Iterator[rules.Found]:
    misnamed = list(rules.names(problem, plan))
    yield from misnamed
    if misnamed:
        return
    chunk = list(rules.chunk(problem, plan))
    sizes = [*rules.requests(problem, plan), *chunk]
    settings = [*rules.choices(problem, plan), *rules.experts(problem, plan)]
    yield from (*sizes, *settings, *rules.blocks(problem, plan))
    yield from plan_figures.requests(problem, plan)
    replay = Replay(problem, plan)
    if not sizes:
        yield from rules.floors(replay)
        yield from rules.running(replay)
        yield from plan_figures.floors(replay)
        yield from plan_figures.copies(replay)
        yield from plan_figures.scale(replay)
    if not sizes and not settings:
        yield from rules.constraints(replay)
        yield from plan_figures.goals(replay)
    if not settings and not chunk:
        yield from rules.quotas(replay)
        yield from plan_figures.ranks(replay)
    if not sizes and not settings:
        yield from shares(replay)
