"""Planner: one problem shape compiled once, planned for again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.goals import Fill
from kvplan.models.plan import Solver
from kvplan.models.problem import as_problem
from kvplan.models.ranks import Rank
from kvplan.models.reading.faults import faults_of
from kvplan.models.reading.variables import fill_faults
from kvplan.solver.formulate.budgets import auto_granule
from kvplan.solver.known import MOST_KEPT
from kvplan.solver.resize import Quota, Ranks, measured_ranks, read_quotas
from kvplan.solver.shape import Shape
from kvplan.solver.solve.choose import plan_formulation
from kvplan.solver.solve.plan import check_arguments, device_of

if TYPE_CHECKING:
    from kvplan.solver.solve.device import Kernel

_MOST_SHAPES = 64  # that are kept: ranks whose granules differ freely have thousands


class Planner:
    """Answers for other quotas without validating or formulating again.

    KV-cache managers size their pools anew after sleep and wake, when a neighbour takes memory or
    when the ratio of their pools changes: the layout and the requests stay.

    Parameters
    ----------
    problem : the shape; its own quotas are the default.
    """

    def __init__(self, problem: Problem) -> None:
        self._own = Shape(as_problem(problem))
        self._shapes: dict[tuple[Ranks, tuple[int, ...]], Shape] = {}
        self._by_shares: OrderedDict[tuple[tuple[str, Fraction], ...], Planner] = OrderedDict()

    def plan(
        self,
        *,
        quota: Quota | None = None,
        shares: Mapping[str, Any] | None = None,
        solver: Solver = "auto",
        deadline: float | None = None,
        device: Any = None,
        kernel: Kernel = "arrays",
    ) -> Plan:
        """`kvplan.solver.plan` for the problem with other quotas.

        Parameters
        ----------
        quota : bytes for every rank, or by rank name; None: as in the problem. A rank that is
            left out stays as it is; one with `memory` gets a declared quota instead.
        shares : by pool, as in `fill: {shares: ...}`, which takes the place of the shape's fill;
            None: as in the problem. A ratio that is new is formulated first.
        solver, deadline, device, kernel : as for `plan`.

        Raises
        ------
        Infeasible, InvalidProblem, SolverError : as `plan` does.
        """
        check_arguments(solver, deadline)
        on = device_of(device, kernel, solver)
        if shares is not None:
            filled = self._filled_by(shares)
            return filled.plan(
                quota=quota, solver=solver, deadline=deadline, device=device, kernel=kernel
            )
        own = self._own
        if quota is None:
            return plan_formulation(
                own.formulation, own.nested, solver=solver, deadline=deadline, on=on
            )
        quotas = read_quotas(own.problem, quota)
        measured = measured_ranks(own.problem, quota)
        shape = self._shape(quotas, measured)

        def declared() -> Problem:
            return _declared(shape.problem, quotas, measured)

        return shape.plan(quotas, declared, solver, deadline, on)

    def _filled_by(self, shares: Mapping[str, Any]) -> Planner:
        """The same shape with other shares of the rest; those of the last few ratios are kept."""
        fill = _read_shares(self._own.problem, shares)
        key = tuple((fill.shares or {}).items())
        known = self._by_shares.get(key)
        if known is None:
            known = Planner(self._own.problem.model_copy(update={"fill": fill}))
            self._by_shares[key] = known
            if len(self._by_shares) > MOST_KEPT:
                self._by_shares.popitem(last=False)
        return known

    def _shape(self, quotas: tuple[int, ...], measured: Ranks) -> Shape:
        """The shape; one for each set of "auto" granules, which follow the quotas."""
        key = (measured, tuple(map(auto_granule, quotas)) if self._own.has_auto else ())
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            problem = _declared(self._own.problem, quotas, measured)
            shape = self._shapes[key] = Shape(problem, planned_often=True)
        return shape


def _read_shares(problem: Problem, shares: Mapping[str, Any]) -> Fill:
    """Shares of the rest by pool.

    Raises
    ------
    InvalidProblem : no such pool, or shares that are none; paths begin with "shares".
    """
    given = dict(shares) if isinstance(shares, Mapping) else shares
    try:
        fill = Fill.model_validate({"shares": given})
    except ValidationError as error:
        raise InvalidProblem(faults_of(error, Fill)) from None
    faults = [
        fault._replace(path=fault.path.removeprefix("fill."))
        for fault in fill_faults(problem.model_copy(update={"fill": fill}))
    ]
    if faults:
        raise InvalidProblem(faults)
    return fill


def _declared(problem: Problem, quotas: tuple[int, ...], measured: Ranks) -> Problem:
    """The problem with declared quotas, some ranks apart."""
    ranks = tuple(
        rank
        if index in measured
        else Rank.model_construct(name=rank.name, stage=rank.stage, quota=quota, memory=None)
        for index, (rank, quota) in enumerate(zip(problem.ranks, quotas, strict=True))
    )
    return problem.model_copy(update={"ranks": ranks})
