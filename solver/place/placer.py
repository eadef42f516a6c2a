"""One problem placed for many quotas: each search begins at what the last one reached."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kvplan.models import Plan, Problem
from kvplan.models.plan import Solver
from kvplan.solver.place.planned import plan_placed

if TYPE_CHECKING:
    from kvplan.solver.solve.on_device import Kernel


class Placer:
    """Remembers the values that goals reached, as guesses: a right one costs two questions."""

    def __init__(self) -> None:
        self._reached: dict[str, int] = {}

    def plan(
        self,
        problem: Problem,
        *,
        solver: Solver = "auto",
        deadline: float | None = None,
        device: Any = None,
        kernel: Kernel = "arrays",
    ) -> Plan:
        """`plan` of a problem that differs from earlier ones in quotas or requests.

        Raises
        ------
        Infeasible, InvalidProblem, SolverError : as `plan` does.
        """
        from kvplan.solver.solve.plan import plan

        rest = partial(plan, solver=solver, deadline=deadline, device=device, kernel=kernel)
        return plan_placed(problem, rest, solver, self._reached)
