"""Answers to integers alone, for sweeps that need no plan."""

from __future__ import annotations

from kvplan.kernels.search.over_shares import within_shares
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer
from kvplan.models import SolverError
from kvplan.solver.solve.bisect import incumbent_of, mended, obeys


def answered(search: Search) -> tuple[Answer | None, bool]:
    """The best answer that is known (None: no point), and whether it is proven.

    Linear constraints that the search's point breaks go to CP-SAT. A weighted goal that the search
    leaves unproven stays so: a sweep has many scenarios.
    """
    found = incumbent_of(search)
    if found is None or found.exact:
        return found, True
    if obeys(search, found.point):
        return found, False
    try:
        from kvplan.solver.cpsat import TooLargeError, Verdict, solve_program

        try:
            solved = solve_program(search.instance, found, use_bounds=True)
        except TooLargeError:
            solved = None
    except (ImportError, RuntimeError, SolverError):
        solved = None
    if solved is not None and (solved.answer is not None or solved.verdict is Verdict.INFEASIBLE):
        answer = None if solved.answer is None else within_shares(search, solved.answer)
        return answer, solved.verdict in (Verdict.OPTIMAL, Verdict.INFEASIBLE)
    return mended(search, found), False
