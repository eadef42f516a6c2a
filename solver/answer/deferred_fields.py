"""What a plan says beyond its decisions: floors, requests, budget, what binds, notes, proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point
from kvplan.models.immutable.frozen_dict import FrozenDict
from kvplan.models.plan import Asked, GoalValue, Proof, RequestPlan
from kvplan.solver.answer.binding import bindings_of
from kvplan.solver.answer.credit import Credit
from kvplan.solver.answer.ledger import rank_plans
from kvplan.solver.answer.notes import notes_of
from kvplan.solver.digest import digest, question_of
from kvplan.solver.formulate.formulation import Formulation

# A problem may have a thousand requests: validating what the solver itself wrote would take longer
# than solving, and so would collecting the names of the fields a thousand times.
_REQUEST, _ASKED = set(RequestPlan.model_fields), set(Asked.model_fields)


def deferred_fields(
    formulation: Formulation,
    search: Search,
    answer: Answer,
    credit: Credit,
    decisions: dict[str, Any],
) -> dict[str, Any]:
    """The fields of a plan that are not decisions."""
    point, instance = answer.point, formulation.instance
    requests = tuple(_requests(formulation, point))
    floors = search.demand.floors(point.chunk, point.capacities, point.counts)
    return {
        "floors": FrozenDict(
            zip([pool.name for pool in instance.named_pools], floors, strict=False)
        ),
        "requests": requests,
        "ranks": rank_plans(formulation, point),
        "binding": bindings_of(formulation, search, point),
        "notes": (*notes_of(formulation, search, point), *credit.notes),
        "proof": _proof(formulation, answer, credit),
        "digest": digest(decisions, requests),
        "question": question_of(formulation.problem),
    }


def _proof(formulation: Formulation, answer: Answer, credit: Credit) -> Proof:
    goals = zip(formulation.instance.objectives, answer.values, answer.bounds, strict=True)
    return Proof(
        solver=credit.solver,
        status="optimal" if answer.exact else "feasible",
        bound=tuple(GoalValue(goal=g.label, value=value, bound=bound) for g, value, bound in goals),
        certificate=credit.certificate,
        deterministic_time=credit.deterministic_time,
    )


def _requests(formulation: Formulation, point: Point) -> Iterator[RequestPlan]:
    named = zip(formulation.problem.batches, formulation.request_names, strict=True)
    for b, (batch, names) in enumerate(named):
        for r, request in enumerate(batch.requests):
            capacity, history, wanted = request.capacity, request.history_tokens, request.count
            if wanted is None and request.fit != "count":
                wanted = 1
            asked = Asked.model_construct(_ASKED, capacity=capacity, history=history, count=wanted)
            count, reduced = wanted or 0, False
            if request.fit != "none":
                index = formulation.fitted_at[b, r]
                capacity, count = point.capacities[index], point.counts[index]
                history = capacity - request.flight_tokens
                reduced = capacity < request.capacity or (wanted is not None and count < wanted)
            yield RequestPlan.model_construct(
                _REQUEST,
                batch=batch.name,
                name=names[r],
                capacity=capacity,
                history=history,
                count=count,
                requested=asked,
                reduced=reduced,
            )
