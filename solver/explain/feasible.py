"""Whether a problem has any plan, how large one variable can be, and what the goals reach.

The exact questions behind every conflict, remedy and break-point, and the only place of an
explanation that knows the solvers.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.kernels.instance import Budget, Instance
from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer
from kvplan.models import Infeasible, InvalidProblem, Plan, Problem, SolverError
from kvplan.models.goals import Fill, Goal
from kvplan.models.units import LIMIT
from kvplan.solver.formulate.formulation import Held, formulate
from kvplan.solver.solve.bisect import incumbent_of, obeys
from kvplan.solver.solve.choose import solve_formulation

_NO_FILL = Fill(none=True)
_MOST_BLOCKS = (2**40, 2**58)  # of a rank whose quota was dropped
_MOST_SLOTS, _MOST_BYTES = 2**16, 2**60


class UnprovenError(SolverError):
    """CP-SAT could not decide one question, within its time or its range; others may be easier."""


def fits(problem: Problem, held: Held | None = None) -> bool:
    """Whether some plan exists; an invalid problem has none.

    Raises
    ------
    UnprovenError : it could not be decided.
    SolverError : CP-SAT is needed, and missing or failing.
    """
    try:
        return has_point(formulate(bare(problem), held).instance)
    except InvalidProblem:
        return False


def largest_plan(problem: Problem, held: Held | None, variable: str) -> Plan | None:
    """A plan in which a variable is as large as in any plan; None where there is none.

    Raises
    ------
    InvalidProblem : the problem, or the variable's name, is invalid.
    UnprovenError : the largest value could not be proven.
    """
    goals = (Goal(maximize={variable: Fraction(1)}),)
    formulation = formulate(bare(problem).model_copy(update={"goals": goals}), held)
    try:
        answer = solve_formulation(formulation)
    except Infeasible:
        return None
    if answer.status != "optimal":
        first = answer.proof.bound[0]
        if first.bound != first.value:
            raise UnprovenError(f"the largest {variable} could not be proven")
    return answer


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
    """The search, which proves it unless its point breaks a linear constraint; then CP-SAT.

    Raises
    ------
    UnprovenError : it could not be decided.
    SolverError : CP-SAT is needed, and missing or failing.
    """
    search = Search(instance)
    answer = solve(search)
    if answer is None:
        return False
    return obeys(search, answer.point) or _by_cpsat(instance)


def goal_values(instance: Instance) -> tuple[Fraction, ...] | None:
    """Value of every goal in the best plan; None where there is no plan.

    Raises
    ------
    SolverError : they could not be proven.
    """
    found = incumbent_of(Search(instance))
    if found is not None and not found.exact:
        found = _proven(instance, found)
    return None if found is None else tuple(map(Fraction, found.values))


def _proven(instance: Instance, incumbent: Answer) -> Answer | None:
    try:
        from kvplan.solver.cpsat import TooLargeError, Verdict, solve_program
    except ImportError as error:
        raise SolverError(f"OR-Tools is missing: {error}") from None
    try:
        solved = solve_program(instance, incumbent, use_bounds=True)
    except TooLargeError:
        raise SolverError("the figures leave CP-SAT's 64-bit range") from None
    if solved.verdict not in (Verdict.OPTIMAL, Verdict.INFEASIBLE):
        raise SolverError("an answer at another quota could not be proven")
    return solved.answer


def _by_cpsat(instance: Instance) -> bool:
    """Ask CP-SAT, whose figures stay below 2^62: budgets of dropped quotas only bound its domains.

    What fits beside a small bound fits; only the largest that it takes says that nothing does.
    """
    answer: bool | None = None
    for most in _MOST_BLOCKS:
        try:
            answer = not _refuted(_bounded(instance, most))
        except OverflowError:
            break
        if answer or all(budget.limit_bytes < LIMIT for budget in instance.budgets):
            return answer
    if answer is None:
        raise UnprovenError("the figures leave CP-SAT's 64-bit range")
    return answer


def _bounded(instance: Instance, most_blocks: int) -> Instance:
    """The same where budgets of dropped quotas count blocks and slots, and hold so many."""
    sizes = instance.experts.sizes if instance.experts is not None else ()
    slot_bytes = max((size for _, size in sizes), default=0)

    def bounded(budget: Budget) -> Budget:
        limit = max(most_blocks, min(_MOST_SLOTS * slot_bytes * budget.layers, _MOST_BYTES))
        block = ((limit // most_blocks, 1),)
        return budget._replace(
            limit_bytes=limit,
            pools=tuple(block if buffers else () for buffers in budget.pools),
            staging=tuple(0 for _ in budget.staging),
            workspaces=(),
            options=tuple(tuple(0 for _ in choice) for choice in budget.options),
        )

    budgets = (
        budget if budget.limit_bytes < LIMIT else bounded(budget) for budget in instance.budgets
    )
    return instance._replace(budgets=tuple(budgets))


def _refuted(instance: Instance) -> bool:
    """Whether CP-SAT proves that there is no point.

    Raises
    ------
    OverflowError : the figures leave its range.
    UnprovenError : it could not decide.
    SolverError : it is missing.
    """
    try:
        from kvplan.solver.cpsat import TooLargeError, refutes
    except ImportError as error:
        raise SolverError(f"OR-Tools is missing: {error}") from None
    try:
        refuted = refutes(instance)
    except TooLargeError as error:
        raise OverflowError from error
    if refuted is None:
        raise UnprovenError("CP-SAT could not decide whether a changed problem fits")
    return refuted
