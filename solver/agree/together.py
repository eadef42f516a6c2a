"""plan_together(): the same plan on every rank, or the same error."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kvplan.models import AgreementFailed, InvalidProblem, Plan, Problem
from kvplan.models.measured.doubts import spread_doubts
from kvplan.models.measured.local import LocalView, brief
from kvplan.models.plan import Solver
from kvplan.models.ranks import Rank
from kvplan.solver.agree.again import Again, fingerprint, planned_again
from kvplan.solver.agree.differences import check_outcomes, check_views
from kvplan.solver.agree.gather import Comm, gather
from kvplan.solver.agree.message import Told, tell
from kvplan.solver.solve.plan import plan

View = LocalView | Rank
Local = View | Callable[[], View]


def plan_together(
    local: Local,
    comm: Comm,
    timeout: float = 60.0,
    *,
    solver: Solver = "auto",
    again: Again | None = None,
) -> Plan:
    """Plan for all ranks of a communicator; every one calls this, and gets the same.

    Parameters
    ----------
    local : what this rank measured, or a function that measures it: what the function raises is
        told to all ranks, so that none waits for this one. With `again` the entry alone is enough,
        such as Rank(name="tp3", quota=free_bytes).
    comm : the ranks that must share one count: TP and PCP groups, PP stages. DP replicas need
        not agree; each has a communicator of its own. `NullComm()` for a single rank.
    timeout : seconds that a rank may be late. A rank that does not come is named by the others
        after so long; one that ends while the others compare notes, after twice as long.
    solver : as for `plan`; there is no deadline, since ranks do not share a clock.
    again : plan again for the quotas that the ranks tell now: a `Planner` fits everything again, an
        earlier `Plan` holds capacities, counts and floors (`Plan.resize`, with its own solver).

    Raises
    ------
    AgreementFailed : a rank failed to measure, holds another problem or another version, does not
        answer, or came to another plan; the text is the same on every rank.
    Infeasible, InvalidProblem : the problem of all ranks has no plan, or is invalid; the
        same text on every rank.
    """
    if not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
        raise InvalidProblem.at("timeout", "seconds above 0", repr(timeout))
    view, cause = _measured(local, again)
    options = {"solver": str(solver), "timeout": f"{timeout:g} s"}
    if again is not None:
        options["again"] = fingerprint(again)
    own = tell(view, options)
    views = gather(comm, own.encode(), timeout)
    outcome = _answer(own, views, partial(_solve, view, solver, again))
    outcomes = gather(comm, outcome.text.encode(), timeout)
    told = {rank: Told.decode(raw) for rank, raw in views.items()}
    check_outcomes({r: raw.decode(errors="replace") for r, raw in outcomes.items()}, told)
    if outcome.plan is None:
        assert outcome.error is not None
        raise outcome.error from cause
    return outcome.plan


def _measured(local: Local, again: Again | None) -> tuple[LocalView, Exception | None]:
    """The view of this rank. An error becomes a view too: raising here would hang the others."""
    try:
        view = local if isinstance(local, View) else local()
        if again is not None and isinstance(view, View):
            view = LocalView(rank=view if isinstance(view, Rank) else view.rank, error=_error(view))
        if not isinstance(view, LocalView):
            expected = "a LocalView" if again is None else "a Rank or a LocalView"
            raise TypeError(f"expected {expected}, got {type(view).__name__}")
        tell(view, {}).encode()
    except Exception as error:
        return LocalView.failed(error), error
    return view, None


def _error(view: View) -> str:
    return view.error if isinstance(view, LocalView) else ""


class _Outcome(NamedTuple):
    """What this rank came to, and the text that is compared."""

    text: str
    plan: Plan | None = None
    error: Exception | None = None


def _answer(
    own: Told, views: dict[int, bytes], solve: Callable[[dict[int, Told]], Plan]
) -> _Outcome:
    """Solve what was gathered. Never raises: the others wait for the outcome."""
    try:
        if own.encode() not in views.values():
            raise AgreementFailed(["the communicator did not return a rank's own view"])
        answer = solve({rank: Told.decode(raw) for rank, raw in views.items()})
        return _Outcome(f"plan {answer.digest}", plan=answer)
    except Exception as error:
        return _Outcome(brief(f"{type(error).__name__}: {error}"), error=error)


def _solve(view: LocalView, solver: Solver, again: Again | None, told: dict[int, Told]) -> Plan:
    """The one problem of all ranks, ranks in ascending order, and its plan."""
    check_views(told)
    ranks = [entry.rank for entry in told.values() if entry.rank is not None]
    if again is not None:
        answer = planned_again(again, ranks, solver)
    else:
        problem = Problem.model_validate({**view.question, "ranks": ranks})
        answer = plan(problem, solver=solver)
    notes = (*answer.notes, *spread_doubts(ranks))
    return answer.model_copy(update={"notes": notes})
