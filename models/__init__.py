"""What is asked (Problem) and what is answered (Plan)."""

from kvplan.models.errors import (
    Advice,
    AgreementFailed,
    CheckFailed,
    Claim,
    Disagreement,
    Fault,
    Infeasible,
    InvalidProblem,
    KvplanError,
    Remedy,
    RuledOut,
    Shortfall,
    SolverError,
    Undecided,
)
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem

__all__ = [
    "Advice",
    "AgreementFailed",
    "CheckFailed",
    "Claim",
    "Disagreement",
    "Fault",
    "Infeasible",
    "InvalidProblem",
    "KvplanError",
    "Plan",
    "Problem",
    "Remedy",
    "RuledOut",
    "Shortfall",
    "SolverError",
    "Undecided",
]
