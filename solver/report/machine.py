"""The machine-readable form: one JSON document, in ASCII, so that it survives any encoding."""

from __future__ import annotations

import json
from typing import Any

from kvplan.models import Infeasible, Plan


def json_of(answer: Plan | Infeasible) -> str:
    """Render a plan, or {"status": "infeasible", reasons, shortfall, ranks}, as JSON."""
    document = (
        _refusal(answer) if isinstance(answer, Infeasible) else answer.model_dump(mode="json")
    )
    return json.dumps(document, indent=2) + "\n"


def _refusal(error: Infeasible) -> dict[str, Any]:
    return {
        "status": "infeasible",
        "reasons": list(error.reasons),
        "shortfall": [entry._asdict() for entry in error.shortfall],
        "ranks": [rank.model_dump(mode="json") for rank in error.ranks],
    }
