"""Trade-offs between goals: `frontier(problem, goals)`.

pandas and NumPy are imported when a table is first built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvplan.models import InvalidProblem, Problem
from kvplan.models.problem import as_problem

if TYPE_CHECKING:
    import pandas

__all__ = ["frontier"]


def frontier(
    problem: Problem,
    goals: Sequence[str],
    *,
    progress: Callable[[int], None] | None = None,
) -> pandas.DataFrame:
    """Find every best trade-off between two or three goals under the quotas.

    A row is Pareto-optimal: no plan is better in one of the goals and as good in the others. No
    such trade-off is left out. The other goals of the problem and its fill come after these.

    Parameters
    ----------
    problem : what is asked; its own order of these goals does not matter.
    goals : two or three variables that a goal may name, such as "capacity:long" or "prefill". A
        step behind it, as in "capacity:long:4096", compares whole steps only: values are rounded
        down to a multiple first, which leaves fewer rows.
    progress : called now and then with the rows found so far.

    Returns
    -------
    One row for each trade-off, the first goal falling: what a plan decides and its slack, in the
    columns that `explore` has (`blocks:<pool>` counts allocated blocks, reserved ones included),
    then `least_quota:<rank>`, the bytes that the trade-off needs there at least: the quota of the
    rank at which it begins to fit, the other quotas as they are.

    Raises
    ------
    Infeasible : the problem has no plan.
    InvalidProblem : a goal that is no variable, or more than 10,000 trade-offs.
    SolverError : a plan could not be proven.
    """
    from kvplan.solver.frontier.goal_axes import read_axes
    from kvplan.solver.frontier.trade_off_table import table_of
    from kvplan.solver.frontier.trade_offs import trade_offs

    asked = as_problem(problem)
    if asked.place is not None:
        expected = "no placement: kvplan solve lists context against speed, explore any other trade"
        raise InvalidProblem.at("place", expected, "a placement to decide")
    axes = read_axes(asked, goals)
    return table_of(asked, axes, trade_offs(asked, axes, progress))
