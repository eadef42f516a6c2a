"""The machine-readable form: one JSON document, in ASCII, so that it survives any encoding."""

from __future__ import annotations

import json
from typing import Any

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.explain import Explained
from kvplan.solver.report.elastic_lines import budget_lines


def json_of(answer: Plan | Infeasible) -> str:
    """Render a plan, or {"status": "infeasible", reasons, shortfall, conflict ...}, as JSON."""
    document = (
        _refusal(answer) if isinstance(answer, Infeasible) else answer.model_dump(mode="json")
    )
    return json.dumps(document, indent=2) + "\n"


def json_of_explanation(explained: Explained, problem: Problem) -> str:
    """Render a plan with its break-points, worth and budget as JSON."""
    budget = list(budget_lines(explained.plan.ranks, problem))
    return json.dumps({**explained.as_dict(), "budget": budget}, indent=2) + "\n"


def _refusal(error: Infeasible) -> dict[str, Any]:
    return {
        "status": "infeasible",
        "reasons": list(error.reasons),
        "shortfall": [entry._asdict() for entry in error.shortfall],
        "conflict": [claim._asdict() for claim in error.conflict],
        "remedies": [remedy.as_dict() for remedy in error.remedies],
        "ruled_out": [entry._asdict() for entry in error.ruled_out],
        "ranks": [rank.model_dump(mode="json") for rank in error.ranks],
    }
