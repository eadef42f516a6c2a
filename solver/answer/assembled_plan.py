"""From a point to a Plan: checked, and its decisions by name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point, copies_held, scale_held
from kvplan.models import CheckFailed, Plan
from kvplan.models.immutable.frozen_dict import FrozenDict
from kvplan.solver.answer.credit import Credit
from kvplan.solver.check import Decisions
from kvplan.solver.formulate.formulation import Formulation


def assemble(
    formulation: Formulation,
    search: Search,
    answer: Answer,
    credit: Credit,
) -> Plan:
    """Check a point and write it out as a plan.

    The decisions are written at once; budget, notes and proof on first use.
    """
    decisions = _decisions(formulation, search, answer.point)
    scale = scale_held(search.shape, search.demand, answer.point) if search.shape.fill_mix else None
    _check(formulation, answer.point, decisions, scale)
    values = {
        "status": "optimal" if answer.exact else "feasible",
        **decisions,
        "running": decisions.get("running"),
        "scale": scale,
        "relaxed": (),
        "placement": None,
    }

    def later() -> dict[str, Any]:
        from kvplan.solver.answer.deferred_fields import (
            deferred_fields,  # loaded on first use of a plan's details
        )

        return deferred_fields(formulation, search, answer, credit, decisions)

    return Plan.defer(values, later)


def _check(
    formulation: Formulation, point: Point, decisions: dict[str, Any], scale: Fraction | None
) -> None:
    """Raise CheckFailed where a plan breaks a rule of its problem."""
    broken = formulation.check.broken(
        Decisions(
            blocks=tuple(decisions["blocks"].values()),
            fitted=tuple(zip(point.capacities, point.counts, strict=True)),
            chunk=decisions["prefill_chunk"],
            options=point.options,
            slots=decisions["expert_slots"],
            kept=decisions["expert_slots_in_prefill"],
            copies=decisions["copies"],
            scale=scale,
            running=decisions.get("running"),
        ),
        formulation.quotas,
    )
    if broken:
        raise CheckFailed("the computed plan is wrong and was not returned: " + "; ".join(broken))


def _decisions(formulation: Formulation, search: Search, point: Point) -> dict[str, Any]:
    """The decision values by field, requests apart; quotas are no part of them."""
    instance, problem = search.shape, formulation.check.problem
    has_experts = instance.experts is not None
    copies = None
    if instance.fill_batch is not None:
        copies = copies_held(instance, search.demand, point, instance.fill_batch)
    return {
        "blocks": FrozenDict(
            {
                pool.name: usable + pool.reserved
                for pool, usable in zip(instance.named_pools, point.usable, strict=False)
            }
        ),
        "prefill_chunk": instance.chunks[point.chunk] if problem.prefill is not None else None,
        "expert_slots": point.experts if has_experts else None,
        "expert_slots_in_prefill": point.kept if has_experts else None,
        "choices": FrozenDict(
            {
                choice.name: choice.options[option].name
                for choice, option in zip(problem.choices, point.options, strict=True)
            }
        ),
        "copies": copies,
        **({"running": point.usable[-1]} if instance.runs else {}),
    }
