"""From a point to a Plan: checked, and its decisions by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from kvplan.kernels.nested import Nested
from kvplan.kernels.values import Answer, Point, copies_held
from kvplan.models import Plan
from kvplan.solver.check import check_point
from kvplan.solver.formulation import Formulation

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
    holds: Callable[[Point, Sequence[int]], bool] | None  # whether a point breaks no rule there
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
    elif moved.holds is None or not moved.holds(point, moved.rooms):
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
        from kvplan.solver.late import late_fields  # loaded when a plan is first looked at

        return late_fields(whole, search, answer, credit, decisions)

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
