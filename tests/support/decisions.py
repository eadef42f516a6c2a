"""What a plan decides, beside what the oracle found best."""

from __future__ import annotations

from typing import Any

from kvplan.models import Plan
from kvplan.solver.oracle import Best


def expected(answer: Best | None) -> dict[str, Any] | None:
    """What the oracle found best, in the plan's terms."""
    if answer is None:
        return None
    return {
        "blocks": dict(answer.blocks),
        "floors": dict(answer.floors),
        "prefill_chunk": answer.prefill_chunk,
        "expert_slots": answer.expert_slots,
        "expert_slots_in_prefill": answer.expert_slots_in_prefill,
        "choices": dict(answer.choices),
        "copies": answer.copies,
        "scale": answer.scale,
        "running": answer.running,
        "requests": dict(answer.requests),
    }


def found(answer: Plan) -> dict[str, Any]:
    """The same fields of a plan."""
    names = ("blocks", "floors", "prefill_chunk", "expert_slots", "expert_slots_in_prefill")
    return {
        **{
            name: getattr(answer, name)
            for name in (*names, "choices", "copies", "scale", "running")
        },
        "requests": {r.name: (r.capacity, r.history, r.count) for r in answer.requests},
    }
