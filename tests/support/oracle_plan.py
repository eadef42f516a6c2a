"""A whole plan around the decision values that the oracle found."""

from __future__ import annotations

from typing import Any

from kvplan.models import Plan, Problem
from kvplan.models.problem import request_name
from kvplan.solver.oracle import Best
from kvplan.solver.oracle.linear import goals_in_order
from kvplan.solver.oracle.memory import (
    Item,
    Residents,
    contexts_of,
    headroom_charged,
    items,
    quota_of,
    usage,
)


def plan_from(problem: Problem, found: Best) -> Plan:
    """Dress the oracle's best plan up as an solver's."""
    options = tuple(
        next(option for option in choice.options if option.name == found.choices[choice.name])
        for choice in problem.choices
    )
    residents = Residents(
        dict(found.blocks),
        found.prefill_chunk,
        found.expert_slots,
        found.expert_slots_in_prefill,
        options,
        contexts_of(problem, _capacities(problem, found)),
        found.running or 0,
    )
    written, singles = len(problem.goals), {goal.single for goal in problem.goals}
    bound = [
        {"goal": label, "value": value, "bound": value}
        for index, (label, value) in enumerate(zip(found.labels, found.goals, strict=True))
        if index < written or label not in singles
    ][: len(goals_in_order(problem))]  # shares come last and are no goals
    return Plan.model_validate(
        {
            "status": "optimal",
            "blocks": dict(found.blocks),
            "floors": dict(found.floors),
            "prefill_chunk": found.prefill_chunk,
            "expert_slots": found.expert_slots,
            "expert_slots_in_prefill": found.expert_slots_in_prefill,
            "choices": dict(found.choices),
            "copies": found.copies,
            "running": found.running,
            "requests": _requests(problem, found),
            "ranks": [_rank(problem, index, residents) for index in range(len(problem.ranks))],
            "binding": [],
            "notes": [],
            "proof": {
                "solver": "auto",
                "status": "optimal",
                "bound": bound,
                "certificate": "nested",
                "deterministic_time": 0,
            },
            "digest": "",
        }
    )


def _capacities(problem: Problem, found: Best) -> dict[tuple[str, str], int]:
    names = [
        (batch.name, request_name(batch, index))
        for batch in problem.batches
        for index in range(len(batch.requests))
    ]
    return {(batch, name): found.requests[name][0] for batch, name in names}


def _requests(problem: Problem, found: Best) -> list[dict[str, Any]]:
    requests = []
    for batch in problem.batches:
        for index, request in enumerate(batch.requests):
            name = request_name(batch, index)
            capacity, history, count = found.requests[name]
            asked = request.count if request.fit == "count" else request.count or 0
            if request.fit != "count" and request.count is None:
                asked = 1
            requests.append(
                {
                    "batch": batch.name,
                    "name": name,
                    "capacity": capacity,
                    "history": history,
                    "count": count,
                    "requested": {
                        "capacity": request.capacity,
                        "history": request.history_tokens,
                        "count": asked,
                    },
                    "reduced": capacity < request.capacity or (asked or 0) > count,
                }
            )
    return requests


def _rank(problem: Problem, index: int, residents: Residents) -> dict[str, Any]:
    rank = problem.ranks[index]
    quota, phases = quota_of(rank), usage(problem, rank, residents)
    charged = headroom_charged(problem, rank, residents.chunk, residents.contexts)
    others = tuple(phase for phase in phases if phase != "prefill")
    phases.update({phase: phases[phase] + charged for phase in others})
    headroom = Item("prefill_headroom", charged, others)
    used = max(phases.values())
    return {
        "name": rank.name,
        "quota": quota.bytes,
        "used": used,
        "slack": quota.bytes - used,
        "bound": min(quota.bounds),
        "phases": phases,
        "ledger": [
            {"consumer": item.name, "bytes": item.bytes, "source": "solved", "phases": item.phases}
            for item in (*items(problem, rank, residents), headroom)
        ],
    }
