"""What a plan says beyond its decisions: floors, requests, budget, binding rows, notes, proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel

from kvplan.kernels.nested import Search
from kvplan.kernels.values import Answer, Point
from kvplan.models.plan import Asked, GoalValue, Proof, RequestPlan
from kvplan.solver.answer.assemble import Credit
from kvplan.solver.answer.binding import binding_rows
from kvplan.solver.answer.ledger import rank_plans
from kvplan.solver.answer.notes import notes_of
from kvplan.solver.digest import digest, question_of
from kvplan.solver.formulate.formulation import Formulation


def late_fields(
    formulation: Formulation,
    nested: Search,
    answer: Answer,
    credit: Credit,
    decisions: dict[str, Any],
) -> dict[str, Any]:
    """The fields of a plan that are not decisions."""
    point, instance = answer.point, formulation.instance
    requests = tuple(_requests(formulation, point))
    floors = nested.demand.floors(point.chunk, point.capacities, point.counts)
    return {
        "floors": {pool.name: floor for pool, floor in zip(instance.pools, floors, strict=True)},
        "requests": requests,
        "ranks": rank_plans(formulation, point),
        "binding": binding_rows(formulation, nested, point),
        "notes": (*notes_of(formulation, nested, point), *credit.notes),
        "proof": _proof(formulation, answer, credit),
        "digest": digest(decisions, requests),
        "question": question_of(formulation.problem),
    }


def _proof(formulation: Formulation, answer: Answer, credit: Credit) -> Proof:
    goals = zip(formulation.instance.goals, answer.values, answer.bounds, strict=True)
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
            capacity, history, count = request.capacity, request.history, request.count
            if history is None:
                history = capacity - 1 if capacity else 0
            if count is None and request.fit != "count":
                count = 1
            asked = _trusted(Asked, {"capacity": capacity, "history": history, "count": count})
            reduced = False
            if request.fit != "none":
                index = formulation.fitted_at[b, r]
                capacity, given = point.capacities[index], point.counts[index]
                history = capacity - request.flight_tokens
                reduced = capacity < request.capacity or (count is not None and given < count)
                count = given
            yield _trusted(
                RequestPlan,
                {
                    "batch": batch.name,
                    "name": names[r],
                    "capacity": capacity,
                    "history": history,
                    "count": count,
                    "requested": asked,
                    "reduced": reduced,
                },
            )


_M = TypeVar("_M", bound=BaseModel)
_set = object.__setattr__
_FIELDS: dict[type[BaseModel], set[str]] = {
    model: set(model.model_fields) for model in (RequestPlan, Asked)
}


def _trusted(model: type[_M], values: dict[str, Any]) -> _M:
    """A frozen model from complete, valid values, without validation.

    A problem may have a thousand requests; validating what the solver itself wrote would take
    longer than solving.
    """
    made = model.__new__(model)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", _FIELDS[model])
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made
