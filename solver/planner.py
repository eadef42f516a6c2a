"""Planner: one problem compiled once, planned for many quotas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kvplan.kernels.search.search import Search
from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.goals import Fill
from kvplan.models.immutable.lazy import cached_property
from kvplan.models.inputs import NumberLike, QuotaLike
from kvplan.models.plan import Solver
from kvplan.models.problem import as_problem
from kvplan.models.ranks import Rank
from kvplan.models.reading.faults import faults_of
from kvplan.models.reading.variables import fill_faults
from kvplan.solver.digest import question_of
from kvplan.solver.formulate.budgets import auto_granule
from kvplan.solver.formulate.compiled import Compiled
from kvplan.solver.formulate.formulation import Formulation
from kvplan.solver.resize import Ranks, measured_ranks, read_quotas
from kvplan.solver.solve.plan import check_arguments, device_of
from kvplan.solver.solve.resizable import plan_formulation

if TYPE_CHECKING:
    from kvplan.solver.place.placer import Placer
    from kvplan.solver.solve.on_device import Kernel

_MOST_RATIOS = 8  # shares that are kept
_MOST_COMPILED = 64  # that are kept: ranks whose granules differ freely have thousands


class Planner:
    """Plans for other quotas without validating or formulating again.

    KV-cache managers resize their pools after sleep and wake, when a neighbour takes memory or when
    the ratio of their pools changes: the layout and the requests stay.

    Parameters
    ----------
    problem : the shape; its own quotas are the default.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = as_problem(problem)
        self._placer = None if self._problem.place is None else _placer()
        if self._placer is None:
            self._own = Compiled(self._problem)
        self._has_auto = self._problem.has_auto_granules
        self._compiled: dict[tuple[Ranks, tuple[int, ...]], Compiled] = {}
        self._by_shares: OrderedDict[tuple[tuple[str, Fraction], ...], Planner] = OrderedDict()

    @property
    def problem(self) -> Problem:
        """The problem it was built from."""
        return self._problem

    @cached_property
    def question(self) -> str:
        """sha256 of that problem, as `Plan.question`."""
        return question_of(self._problem)

    def plan(
        self,
        *,
        quota: QuotaLike | None = None,
        shares: Mapping[str, NumberLike] | None = None,
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
        shares : by pool, as in `fill: {shares: ...}`, which replaces the problem's fill;
            None: as in the problem. A ratio that is new is formulated first.
        solver, deadline, device, kernel : as for `plan`.

        Raises
        ------
        Infeasible, InvalidProblem, SolverError : as `plan` does.
        """
        check_arguments(solver, deadline)
        on = device_of(device, kernel, solver)
        if self._placer is not None:
            if shares is not None:
                raise InvalidProblem.at("shares", "none beside place", "shares")
            moved = self._problem if quota is None else self._moved(quota)
            return self._placer.plan(
                moved, solver=solver, deadline=deadline, device=device, kernel=kernel
            )
        if shares is not None:
            filled = self._filled_by(shares)
            return filled.plan(
                quota=quota, solver=solver, deadline=deadline, device=device, kernel=kernel
            )
        formulation, search = self._own.formulation, self._own.search
        if quota is not None:
            formulation, search = self._at(quota)
        return plan_formulation(formulation, search, solver=solver, deadline=deadline, on=on)

    def _at(self, quota: QuotaLike) -> tuple[Formulation, Search]:
        """The problem with other quotas; one layout for each set of "auto" granules."""
        quotas = read_quotas(self._problem, quota)
        measured = measured_ranks(self._problem, quota)
        key = (measured, tuple(map(auto_granule, quotas)) if self._has_auto else ())
        compiled = self._compiled.get(key)
        if compiled is None:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            compiled = self._compiled[key] = Compiled(_declared(self._problem, quotas, measured))
        return compiled.at(quotas, partial(_declared, self._problem, quotas, measured))

    def _moved(self, quota: QuotaLike) -> Problem:
        """The problem with other quotas."""
        measured = measured_ranks(self._problem, quota)
        return _declared(self._problem, read_quotas(self._problem, quota), measured)

    def _filled_by(self, shares: Mapping[str, NumberLike]) -> Planner:
        """The same shape with other shares of the rest; those of the last few ratios are kept."""
        fill = _read_shares(self._problem, shares)
        key = tuple((fill.shares or {}).items())
        known = self._by_shares.get(key)
        if known is None:
            known = Planner(self._problem.model_copy(update={"fill": fill}))
            self._by_shares[key] = known
            if len(self._by_shares) > _MOST_RATIOS:
                self._by_shares.popitem(last=False)
        return known


def _read_shares(problem: Problem, shares: Mapping[str, NumberLike]) -> Fill:
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


def _placer() -> Placer:
    """Import what places layers, and NumPy with it, where a problem has layers to place."""
    from kvplan.solver.place.placer import Placer

    return Placer()
