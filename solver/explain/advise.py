"""The advice of a refusal: what cannot hold together, and what would change that."""

from __future__ import annotations

from kvplan.models import Advice, Problem, RuledOut, SolverError
from kvplan.solver.explain.conflict.minimal import minimal_conflict
from kvplan.solver.explain.conflict.wording import claim_of
from kvplan.solver.explain.remedies.find import find_remedies
from kvplan.solver.explain.remedies.what_if import WhatIf
from kvplan.solver.formulate.formulation import Held


def advise(problem: Problem, held: Held | None = None) -> Advice:
    """The conflict, remedies and what cannot help, for an infeasible problem.

    Parameters
    ----------
    held : floors and granules of the plan that is resized.
    """
    try:
        items = minimal_conflict(problem, held)
        found = find_remedies(WhatIf(problem, held, items))
    except SolverError as error:  # a refusal stays a refusal
        return Advice(ruled_out=(RuledOut("", f"no explanation: {error}"),))
    claims = tuple(claim_of(problem, held, item) for item in items)
    return Advice(claims, found.remedies, found.ruled_out)
