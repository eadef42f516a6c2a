"""From a point to a Plan: checked, and its decisions by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvplan.kernels.nested import Search
from kvplan.kernels.values import Answer, Point, copies_held
from kvplan.models import Plan
from kvplan.models.immutable.frozen_dict import FrozenDict
from kvplan.models.plan import Solver
from kvplan.solver.check import check_point
from kvplan.solver.formulate.formulation import Formulation


class Credit(NamedTuple):
    """Who answered, and what it cost."""

    solver: Solver
    certificate: str
    deterministic_time: float = 0.0
    notes: tuple[str, ...] = ()


class Moved(NamedTuple):
    """Other quotas than a formulation has."""

    rooms: Sequence[int]  # bytes of each of its `every_budget`
    holds: Callable[[Point, Sequence[int]], bool] | None  # whether a point breaks no rule there
    formulation: Callable[[], Formulation]  # the one that has them


def assemble(
    formulation: Formulation,
    nested: Search,
    answer: Answer,
    credit: Credit,
    moved: Moved | None = None,
) -> Plan:
    """Check a point and write it out as a plan.

    The decisions are written at once; budget, notes and proof when they are first looked at.
    """
    instance, point = formulation.instance, answer.point
    if moved is None:
        check_point(instance, nested.demand, point)
    elif moved.holds is None or not moved.holds(point, moved.rooms):
        check_point(instance, nested.demand, point, moved.rooms)
    decisions = _decisions(formulation, nested, point)
    values = {
        "status": "optimal" if answer.exact else "feasible",
        **decisions,
        "relaxed": (),
    }

    def later() -> dict[str, Any]:
        whole = formulation if moved is None else moved.formulation()
        search = nested if moved is None else nested.rebased(whole.instance)
        from kvplan.solver.answer.fields import late_fields  # loaded when a plan is first looked at

        return late_fields(whole, search, answer, credit, decisions)

    return Plan.defer(values, later)


def _decisions(formulation: Formulation, nested: Search, point: Point) -> dict[str, Any]:
    """The decision values by field, requests apart."""
    instance, problem = formulation.instance, formulation.problem
    has_experts = instance.experts is not None
    copies = None
    if instance.fill_batch is not None:
        copies = copies_held(instance, nested.demand, point, instance.fill_batch)
    return {
        "blocks": FrozenDict(
            {
                pool.name: usable + pool.reserved
                for pool, usable in zip(instance.pools, point.usable, strict=True)
            }
        ),
        "prefill_chunk": instance.chunks[point.chunk] if problem.prefill is not None else None,
        "expert_slots": point.experts if has_experts else None,
        "expert_slots_in_prefill": point.kept if has_experts else None,
        "choices": FrozenDict(
            {
                choice.name: choice.options[option].name
                for choice, option in zip(problem.choices, point.options or (), strict=True)
            }
        ),
        "copies": copies,
    }
