"""Whether a problem has any plan: the exact question behind every conflict and remedy."""

from __future__ import annotations

from kvplan.kernels.constrained import Constrained
from kvplan.kernels.nested import Nested
from kvplan.kernels.terms import Terms
from kvplan.models import EngineError, InvalidProblem, Problem
from kvplan.models.goals import Fill
from kvplan.solver.formulation import Held, formulate

_NO_FILL = Fill(none=True)


def fits(problem: Problem, held: Held | None = None) -> bool:
    """Whether some plan exists; a problem that makes no sense has none."""
    try:
        return has_point(formulate(bare(problem), held).terms)
    except InvalidProblem:
        return False


def bare(problem: Problem) -> Problem:
    """The problem without what cannot decide whether it fits: goals, fill, larger chunks.

    Staging and flight never fall with the chunk, so the smallest chunk stands for all of them
    unless a linear constraint looks at it.
    """
    update: dict[str, object] = {"goals": (), "fill": _NO_FILL}
    prefill = problem.prefill
    if prefill is not None and not any("prefill" in c.terms for c in problem.constraints):
        least = prefill.candidates[0]
        update["prefill"] = prefill.model_copy(
            update={"requested": least, "chunks": (least,), "min": None, "step": None}
        )
    return problem.model_copy(update=update)


def has_point(terms: Terms) -> bool:
    """The search where it is a proof; CP-SAT where linear constraints need more than it proves.

    Raises
    ------
    EngineError : CP-SAT is needed, and missing, failing or undecided.
    """
    nested = Nested(terms)
    if not any(nested.possible(world) for world in nested.worlds()):
        return False
    if not terms.constraints:
        return True
    constrained = Constrained(terms)
    # A demand that obeys every row is a point, whether or not the search is exact.
    if any(constrained.possible(world) for world in constrained.worlds()):
        return True
    return not constrained.is_exact and not _refuted(nested)


def _refuted(nested: Nested) -> bool:
    try:
        from kvplan.solver.cpsat.engine import proves_infeasible
        from kvplan.solver.cpsat.model import TooLargeError
    except ImportError as error:
        raise EngineError(f"OR-Tools is missing: {error}") from None
    try:
        refuted = proves_infeasible(nested, None)
    except TooLargeError:
        raise EngineError("the figures leave CP-SAT's 64-bit range") from None
    if refuted is None:
        raise EngineError("CP-SAT could not decide whether a changed problem fits")
    return refuted
