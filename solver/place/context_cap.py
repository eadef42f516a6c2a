"""What is left after a placement may not raise what the placement decided.

Blocks may have room for tokens that buffers by context have not; and a longer context is read, so
it costs time that a goal before it may have won.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.models import Plan, Problem
from kvplan.models.demands import Request
from kvplan.models.plan import Asked, RequestPlan


def longest(answer: Plan) -> int:
    """The longest request's capacity."""
    return max((request.capacity for request in answer.requests), default=0)


def fitted_values(problem: Problem, answer: Plan) -> tuple[int, ...]:
    """Capacity or count of each fitted request, in order."""
    told = zip(_requests(problem), answer.requests, strict=True)
    return tuple(
        row.count if request.fit == "count" else row.capacity
        for request, row in told
        if request.fit != "none"
    )


def capped(problem: Problem, values: Iterable[int]) -> Problem:
    """The problem with no fitted request above its value."""
    left = iter(values)
    batches = [
        batch.model_copy(
            update={
                "requests": tuple(
                    each if each.fit == "none" else _capped(each, next(left))
                    for each in batch.requests
                )
            }
        )
        for batch in problem.batches
    ]
    return problem.model_copy(update={"batches": tuple(batches)})


def _capped(request: Request, value: int) -> Request:
    if request.fit == "count":
        return request.model_copy(update={"count": value})
    if request.capacity <= value:
        return request
    history = value - request.flight_tokens
    return request.model_copy(update={"capacity": value, "history": history})


def _requests(problem: Problem) -> list[Request]:
    return [request for batch in problem.batches for request in batch.requests]


def retold(answer: Plan, problem: Problem) -> tuple[RequestPlan, ...]:
    """Requests of a plan beside what a problem asks for."""
    told = zip(answer.requests, _requests(problem), strict=True)
    return tuple(_retold(row, request) for row, request in told)


def _retold(told: RequestPlan, request: Request) -> RequestPlan:
    if request.fit == "none":
        return told
    wanted = request.count if request.fit == "count" else request.count or 1
    asked = Asked(capacity=request.capacity, history=request.history_tokens, count=wanted)
    reduced = told.capacity < request.capacity or (wanted is not None and told.count < wanted)
    return told.model_copy(update={"requested": asked, "reduced": reduced})
