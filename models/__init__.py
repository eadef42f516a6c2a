"""What is asked (Problem) and what is answered (Plan)."""

from kvplan.models.errors import (
    CheckFailed,
    Disagreement,
    EngineError,
    Fault,
    Infeasible,
    InvalidProblem,
    KvplanError,
    Shortfall,
)
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem

__all__ = [
    "CheckFailed",
    "Disagreement",
    "EngineError",
    "Fault",
    "Infeasible",
    "InvalidProblem",
    "KvplanError",
    "Plan",
    "Problem",
    "Shortfall",
]
