"""The fingerprint of a plan: equal wherever the decisions are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.models import Plan
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
    return digest({name: getattr(plan, name) for name in DECISIONS}, plan.requests)


def digest(decisions: Mapping[str, Any], requests: Iterable[RequestPlan]) -> str:
    """sha256 of the decision values and the requests as canonical JSON."""
    rows = [[r.batch, r.name, r.capacity, r.history, r.count] for r in requests]
    text = json.dumps({**decisions, "requests": rows}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
