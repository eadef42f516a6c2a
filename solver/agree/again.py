"""What ranks plan again from: a `Planner`, which fits everything again, or a `Plan` to resize."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.models import InvalidProblem, Plan
from kvplan.models.plan import Solver
from kvplan.models.ranks import Rank
from kvplan.solver.planner import Planner

Again = Planner | Plan


def fingerprint(again: Again) -> str:
    """What must be alike on all ranks: the problem, and the decisions that a resize holds."""
    if isinstance(again, Plan):
        return f"plan {again.digest[:16]} of problem {again.question[:16]}"
    return f"problem {again.question[:16]}"


def planned_again(again: Again, ranks: Sequence[Rank], solver: Solver) -> Plan:
    """Plan for the quotas that all ranks told.

    Raises
    ------
    InvalidProblem : the ranks are not those of the earlier problem.
    """
    known = again.ranks if isinstance(again, Plan) else again.problem.ranks
    names, told = [rank.name for rank in known], [rank.name for rank in ranks]
    if sorted(told) != sorted(names):
        expected = f"one entry for each of {', '.join(names)}"
        raise InvalidProblem.at("ranks", expected, ", ".join(told))
    quotas = {rank.name: rank.quota_bytes for rank in ranks}
    if isinstance(again, Plan):
        return again.resize(quotas)
    return again.plan(quota=quotas, solver=solver)
