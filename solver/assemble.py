"""From a point to a Plan: names, budget, binding rows, notes, proof, digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from kvplan.kernels.bytes import least_kept
from kvplan.kernels.nested import Nested
from kvplan.kernels.values import Answer, Point, copies_held
from kvplan.kernels.worlds import point_at
from kvplan.models import Advice, Infeasible, Plan, Shortfall
from kvplan.models.plan import Asked, GoalValue, Proof, RequestPlan
from kvplan.models.units import exact_bytes
from kvplan.solver.binding import binding_rows
from kvplan.solver.check import check_point
from kvplan.solver.digest import digest
from kvplan.solver.formulation import Formulation
from kvplan.solver.ledger import rank_plans
from kvplan.solver.notes import notes_of
from kvplan.solver.outlook import Shortage, least_shortage

Engine = Literal["auto", "cp-sat", "bisect"]


class Credit(NamedTuple):
    """Who answered, and what it cost."""

    engine: Engine
    certificate: str
    deterministic_time: float = 0.0
    notes: tuple[str, ...] = ()


class Moved(NamedTuple):
    """Other quotas than a formulation has."""

    rooms: Sequence[int]  # bytes of each of its `every_row`
    holds: Callable[[Point, Sequence[int]], bool]  # whether a point breaks no rule there
    formulation: Callable[[], Formulation]  # the one that has them


def assemble(
    formulation: Formulation,
    nested: Nested,
    answer: Answer,
    credit: Credit,
    moved: Moved | None = None,
) -> Plan:
    """Check a point and write it out as a plan.

    The decisions are written at once; budget, notes and proof when they are first looked at.
    """
    terms, point = formulation.terms, answer.point
    if moved is None:
        check_point(terms, nested.demand, point)
    elif not moved.holds(point, moved.rooms):
        check_point(terms, nested.demand, point, moved.rooms)
    decisions = _decisions(formulation, nested, point)
    values = {
        "status": "optimal" if answer.exact else "feasible",
        **decisions,
        "relaxed": (),
    }

    def later() -> dict[str, Any]:
        whole = formulation if moved is None else moved.formulation()
        search = nested if moved is None else nested.rebased(whole.terms)
        return _later(whole, search, answer, credit, decisions)

    return Plan.defer(values, later)


def _decisions(formulation: Formulation, nested: Nested, point: Point) -> dict[str, Any]:
    """The decision values by field, requests apart."""
    terms, problem = formulation.terms, formulation.problem
    has_experts = terms.experts is not None
    copies = None
    if terms.fill_batch is not None:
        copies = copies_held(terms, nested.demand, point, terms.fill_batch)
    return {
        "blocks": {
            pool.name: usable + pool.reserved
            for pool, usable in zip(terms.pools, point.usable, strict=True)
        },
        "prefill_chunk": terms.chunks[point.chunk] if problem.prefill is not None else None,
        "expert_slots": point.experts if has_experts else None,
        "expert_slots_in_prefill": point.kept if has_experts else None,
        "choices": {
            choice.name: choice.options[option].name
            for choice, option in zip(problem.choices, point.options, strict=True)
        }
        if point.options
        else {},
        "copies": copies,
    }


def _later(
    formulation: Formulation,
    nested: Nested,
    answer: Answer,
    credit: Credit,
    decisions: dict[str, Any],
) -> dict[str, Any]:
    """The fields of a plan that are not decisions."""
    point, terms = answer.point, formulation.terms
    requests = tuple(_requests(formulation, point))
    floors = nested.demand.floors(point.chunk, point.capacities, point.counts)
    return {
        "floors": {pool.name: floor for pool, floor in zip(terms.pools, floors, strict=True)},
        "requests": requests,
        "ranks": rank_plans(formulation, point),
        "binding": binding_rows(formulation, nested, point),
        "notes": (*notes_of(formulation, nested, point), *credit.notes),
        "proof": _proof(formulation, answer, credit),
        "digest": digest(decisions, requests),
    }


def _proof(formulation: Formulation, answer: Answer, credit: Credit) -> Proof:
    goals = zip(formulation.terms.goals, answer.values, answer.bounds, strict=True)
    return Proof(
        engine=credit.engine,
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


def infeasible(formulation: Formulation, nested: Nested) -> Infeasible:
    """Why nothing fits with everything elastic at its floor, with the budget table there."""
    shortage = least_shortage(nested, nested.worlds())
    ranks = formulation.problem.ranks
    missing_at: dict[tuple[str, str], int] = {}
    for row, missing in shortage.rows:  # a headroom row repeats a phase
        place = (ranks[row.rank].name, row.phase)
        missing_at[place] = max(missing, missing_at.get(place, 0))
    shortfall = tuple(Shortfall(*place, missing) for place, missing in missing_at.items())
    reasons = [*_pool_reasons(formulation, shortage), *map(_reason, shortfall)]
    if not reasons:
        reasons = ["the linear constraints cannot hold together within the quotas"]
    experts, slots = nested.terms.experts, shortage.corner.experts
    kept = least_kept(slots, experts) if experts else 0
    point = point_at(shortage.world, shortage.corner, kept)
    budget = rank_plans(formulation, point)

    def advice() -> Advice:
        from kvplan.solver.explain import advise  # loaded when a refusal is read, not when raised

        return advise(formulation.problem, formulation.held)

    return Infeasible(reasons, shortfall, budget, advice)


def _reason(short: Shortfall) -> str:
    return f"rank {short.rank} is short by {exact_bytes(short.bytes)} in {short.phase}"


def _pool_reasons(formulation: Formulation, shortage: Shortage) -> Iterator[str]:
    for index in shortage.pools:
        pool, needed = formulation.terms.pools[index], shortage.corner.usable[index]
        yield f"pool {pool.name} needs {needed} usable blocks, max_blocks is {pool.most}"
