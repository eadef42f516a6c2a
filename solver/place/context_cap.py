"""Buffers by context: what is left after a placement may not make a request longer than they are.

A block holds several tokens, and buffers grow by the token: blocks may have room for tokens that
buffers have not.
"""

from __future__ import annotations

from kvplan.models import Plan, Problem
from kvplan.models.demands import Request
from kvplan.models.plan import Asked, RequestPlan


def longest(answer: Plan) -> int:
    """The longest request's capacity."""
    return max((request.capacity for request in answer.requests), default=0)


def capped(problem: Problem, context_tokens: int) -> Problem:
    """The problem with no fitted request longer than a context."""
    batches = [
        batch.model_copy(
            update={"requests": tuple(_capped(each, context_tokens) for each in batch.requests)}
        )
        for batch in problem.batches
    ]
    return problem.model_copy(update={"batches": tuple(batches)})


def _capped(request: Request, context_tokens: int) -> Request:
    if request.fit != "capacity" or request.capacity <= context_tokens:
        return request
    history = context_tokens - request.flight_tokens
    return request.model_copy(update={"capacity": context_tokens, "history": history})


def retold(answer: Plan, problem: Problem) -> tuple[RequestPlan, ...]:
    """Requests of a plan beside what a problem asks for."""
    asked = [request for batch in problem.batches for request in batch.requests]
    return tuple(
        _retold(told, request) for told, request in zip(answer.requests, asked, strict=True)
    )


def _retold(told: RequestPlan, request: Request) -> RequestPlan:
    if request.fit != "capacity":
        return told
    wanted = Asked(
        capacity=request.capacity, history=request.history_tokens, count=told.requested.count
    )
    return told.model_copy(
        update={"requested": wanted, "reduced": told.capacity < request.capacity}
    )
