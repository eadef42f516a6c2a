"""Fingerprints: of a plan (equal wherever the decisions are), and of its problem."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.models import Plan, Problem
from kvplan.models.plan import RequestPlan

DECISIONS = (
    "blocks",
    "prefill_chunk",
    "expert_slots",
    "expert_slots_in_prefill",
    "choices",
    "copies",
)


def digest_of(plan: Plan) -> str:
    """sha256 of a plan's decision values, recomputed from its fields."""
    decisions = {name: getattr(plan, name) for name in DECISIONS}
    if plan.running is not None:
        decisions["running"] = plan.running
    if plan.placement is not None:
        slices = [[space.name, space.first, space.layers] for space in plan.placement.spaces]
        decisions["placement"] = [slices, plan.placement.last, plan.placement.experts]
    return digest(decisions, plan.requests)


def digest(decisions: Mapping[str, Any], requests: Iterable[RequestPlan]) -> str:
    """sha256 of the decision values and the requests as canonical JSON."""
    rows = [[r.batch, r.name, r.capacity, r.history, r.count] for r in requests]
    return _sha256({**decisions, "requests": rows})


def question_of(problem: Problem) -> str:
    """sha256 of a problem as canonical JSON: how it was written (order, units) does not count."""
    return _sha256(problem.model_dump(mode="json", exclude_defaults=True))


def _sha256(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
