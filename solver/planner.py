"""Planner: one problem shape compiled once, planned for again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.models import Plan, Problem
from kvplan.models.ranks import Rank
from kvplan.solver.assemble import Engine
from kvplan.solver.budget import auto_granule
from kvplan.solver.engine import check_arguments, device_of
from kvplan.solver.resize import Quota, Ranks, measured_ranks, read_quotas
from kvplan.solver.shape import Shape
from kvplan.solver.solve import plan_formulation

if TYPE_CHECKING:
    from kvplan.solver.device import Kernel


class Planner:
    """Answers for other quotas without validating or formulating again.

    KV-cache managers size their pools anew after sleep and wake, or when a neighbour takes memory:
    the layout and the requests stay, the quota moves.

    Parameters
    ----------
    problem : the shape; its own quotas are the default.
    """

    def __init__(self, problem: Problem) -> None:
        self._own = Shape(problem)
        self._shapes: dict[tuple[Ranks, tuple[int, ...]], Shape] = {}

    def plan(
        self,
        *,
        quota: Quota | None = None,
        engine: Engine = "auto",
        deadline: float | None = None,
        device: Any = None,
        kernel: Kernel = "arrays",
    ) -> Plan:
        """`kvplan.solver.plan` for the problem with other quotas.

        Parameters
        ----------
        quota : bytes for every rank, or by rank name; None: as in the problem. A rank that is
            left out stays as it is; one with `memory` gets a declared quota instead.
        engine, deadline, device, kernel : as for `plan`.

        Raises
        ------
        Infeasible, InvalidProblem, EngineError : as `plan` does.
        """
        check_arguments(engine, deadline)
        on = device_of(device, kernel, engine)
        own = self._own
        if quota is None:
            return plan_formulation(
                own.formulation, own.nested, engine=engine, deadline=deadline, on=on
            )
        quotas = read_quotas(own.problem, quota)
        measured = measured_ranks(own.problem, quota)
        shape = self._shape(quotas, measured)

        def declared() -> Problem:
            return _declared(shape.problem, quotas, measured)

        return shape.plan(quotas, declared, engine, deadline, on)

    def _shape(self, quotas: tuple[int, ...], measured: Ranks) -> Shape:
        """The shape; one for each set of "auto" granules, which follow the quotas."""
        key = (measured, tuple(map(auto_granule, quotas)) if self._own.has_auto else ())
        if key not in self._shapes:
            problem = _declared(self._own.problem, quotas, measured)
            self._shapes[key] = Shape(problem, planned_often=True)
        return self._shapes[key]


def _declared(problem: Problem, quotas: tuple[int, ...], measured: Ranks) -> Problem:
    """The problem with declared quotas, some ranks apart."""
    ranks = tuple(
        rank
        if index in measured
        else Rank.model_construct(name=rank.name, stage=rank.stage, quota=quota, memory=None)
        for index, (rank, quota) in enumerate(zip(problem.ranks, quotas, strict=True))
    )
    return problem.model_copy(update={"ranks": ranks})
