"""Whether a problem has any plan: the exact question behind every conflict and remedy."""

from __future__ import annotations

from kvplan.kernels.instance import Instance
from kvplan.kernels.nested import Search
from kvplan.models import InvalidProblem, Problem, SolverError
from kvplan.models.goals import Fill
from kvplan.solver.formulate.formulation import Held, formulate

_NO_FILL = Fill(none=True)


def fits(problem: Problem, held: Held | None = None) -> bool:
    """Whether some plan exists; a problem that makes no sense has none."""
    try:
        return has_point(formulate(bare(problem), held).instance)
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


def has_point(instance: Instance) -> bool:
    """The search without linear constraints, where it is a proof; CP-SAT under them.

    Raises
    ------
    SolverError : CP-SAT is needed, and missing, failing or undecided.
    """
    nested = Search(instance)
    if not any(nested.possible(world) for world in nested.worlds()):
        return False
    return not instance.constraints or not _refuted(instance)


def _refuted(instance: Instance) -> bool:
    try:
        from kvplan.solver.cpsat import TooLargeError, refutes
    except ImportError as error:
        raise SolverError(f"OR-Tools is missing: {error}") from None
    try:
        refuted = refutes(instance)
    except TooLargeError:
        raise SolverError("the figures leave CP-SAT's 64-bit range") from None
    if refuted is None:
        raise SolverError("CP-SAT could not decide whether a changed problem fits")
    return refuted
