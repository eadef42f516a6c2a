"""Why a problem does not fit and what would change that; what limits a plan."""

from kvplan.solver.explain.advise import advise
from kvplan.solver.explain.sensitivity.explained import explain
from kvplan.solver.explain.sensitivity.findings import Explained

__all__ = ["Explained", "advise", "explain"]
