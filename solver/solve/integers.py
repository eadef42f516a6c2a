"""What solver auto answers to integers alone, for callers that need no plan."""

from __future__ import annotations

from kvplan.kernels.nested import Search
from kvplan.kernels.values import Answer
from kvplan.models import SolverError
from kvplan.solver.solve.bisect import mended, obeys, search


def answered(nested: Search) -> tuple[Answer | None, bool]:
    """The best answer that is known (None: no point), and whether it is proven."""
    found = search(nested)
    if found is None or found.exact:
        return found, True
    try:
        from kvplan.solver.cpsat import TooLargeError, Verdict, solve_program

        try:
            solved = solve_program(nested.instance, found, use_bounds=True)
        except TooLargeError:
            solved = None
    except (ImportError, RuntimeError, SolverError):
        solved = None
    if solved is not None and (solved.answer is not None or solved.verdict is Verdict.INFEASIBLE):
        return solved.answer, solved.verdict in (Verdict.OPTIMAL, Verdict.INFEASIBLE)
    return (found if obeys(nested, found.point) else mended(nested, found)), False
