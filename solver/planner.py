"""Planner: one problem shape compiled once, planned for again and again."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from kvplan.kernels.nested import Nested
from kvplan.kernels.terms import Row
from kvplan.models import Plan, Problem
from kvplan.models.ranks import Rank
from kvplan.solver.assemble import Credit, Engine, Moved, assemble
from kvplan.solver.budget import auto_granule, merge_key
from kvplan.solver.engine import check_arguments, device_of
from kvplan.solver.formulation import Formulation, formulate
from kvplan.solver.refusal import infeasible
from kvplan.solver.resize import Quota, Ranks, measured_ranks, read_quotas
from kvplan.solver.solve import plan_formulation, resizable
from kvplan.solver.unrolled import Holds, unrolled_check

if TYPE_CHECKING:
    from kvplan.solver.device import Device, Kernel


class Planner:
    """Answers for other quotas without validating or formulating again.

    KV-cache managers size their pools anew after sleep and wake, or when a neighbour takes memory:
    the layout and the requests stay, the quota moves.

    Parameters
    ----------
    problem : the shape; its own quotas are the default.
    """

    def __init__(self, problem: Problem) -> None:
        self._formulation = formulate(problem)
        self._nested = Nested(self._formulation.terms)
        self._compiled: dict[tuple[Ranks, tuple[int, ...]], _Compiled] = {}
        self._has_auto = any(
            buffer.granule == "auto" for pool in problem.pools for buffer in pool.layout
        )

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
        if quota is None:
            return plan_formulation(
                self._formulation, self._nested, engine=engine, deadline=deadline, on=on
            )
        problem = self._formulation.problem
        quotas = read_quotas(problem, quota)
        return self._for(quotas, measured_ranks(problem, quota)).plan(quotas, engine, deadline, on)

    def _for(self, quotas: tuple[int, ...], measured: Ranks) -> _Compiled:
        """The compiled shape; one for each set of "auto" granules, which follow the quotas."""
        key = (measured, tuple(map(auto_granule, quotas)) if self._has_auto else ())
        if key not in self._compiled:
            self._compiled[key] = _Compiled(self._formulation.problem, quotas, measured)
        return self._compiled[key]


class _Compiled:
    """A formulation whose rows take other quotas.

    Parameters
    ----------
    quotas : bytes by rank.
    measured : ranks that keep the quota of their `memory`.
    """

    def __init__(self, problem: Problem, quotas: tuple[int, ...], measured: Ranks) -> None:
        self._measured = measured
        self._formulation = formulate(_declared(problem, quotas, measured))
        self._nested = Nested(self._formulation.terms)
        rows = self._formulation.terms.every_row
        # A headroom row has a quota of its own, which stays beside that of its rank.
        self._fixed = [(row.rank, quotas[row.rank] - row.room) for row in rows]
        groups: dict[object, list[int]] = {}
        for number, row in enumerate(rows):
            groups.setdefault(merge_key(row), []).append(number)
        self._groups = list(groups.values())
        self._tightest = [self._tightest_of(group) for group in self._groups]

    def _tightest_of(self, group: list[int]) -> list[tuple[int, int]]:
        """(rank, fixed bytes) of each rank's tightest row among some with equal left sides."""
        most: dict[int, int] = {}
        for number in group:
            rank, fixed = self._fixed[number]
            most[rank] = max(fixed, most.get(rank, fixed))
        return list(most.items())

    def plan(
        self,
        quotas: tuple[int, ...],
        engine: Engine,
        deadline: float | None,
        on: Device | None,
    ) -> Plan:
        """A plan for other quotas; where the way is straight, no row is written for it."""
        direct = self._nested.direct
        if engine != "auto" or direct is None:
            formulation, nested = self.at(quotas)
            return plan_formulation(formulation, nested, engine=engine, deadline=deadline, on=on)
        rooms = [quotas[rank] - fixed for rank, fixed in self._fixed]
        answer = direct.answer(
            [min([quotas[rank] - fixed for rank, fixed in tightest]) for tightest in self._tightest]
        )

        def moved() -> Formulation:
            return self.at(quotas)[0]

        if answer is None:
            raise infeasible(*self.at(quotas))
        credit = Credit(engine, "nested")
        moved_to = Moved(rooms, self._holds, moved)
        found = assemble(self._formulation, self._nested, answer, credit, moved_to)
        return resizable(found, moved, engine, deadline)

    @cached_property
    def _holds(self) -> Holds:
        return unrolled_check(self._formulation.terms, self._nested.demand)

    def at(self, quotas: tuple[int, ...]) -> tuple[Formulation, Nested]:
        """The formulation and its search for other quotas; needs stay computed."""
        rows = [
            row._replace(
                room=quotas[rank] - fixed,
                quota=row.quota if rank in self._measured else quotas[rank],
            )
            for row, (rank, fixed) in zip(
                self._formulation.terms.every_row, self._fixed, strict=True
            )
        ]
        merged = [min([rows[i] for i in group], key=_room) for group in self._groups]
        terms = self._formulation.terms._replace(rows=tuple(merged), every_row=tuple(rows))
        problem = _declared(self._formulation.problem, quotas, self._measured)
        formulation = self._formulation._replace(problem=problem, terms=terms)
        return formulation, self._nested.rebased(terms)


def _room(row: Row) -> int:
    return row.room


def _declared(problem: Problem, quotas: tuple[int, ...], measured: Ranks) -> Problem:
    """The problem with declared quotas, some ranks apart."""
    ranks = tuple(
        rank
        if index in measured
        else Rank.model_construct(name=rank.name, stage=rank.stage, quota=quota, memory=None)
        for index, (rank, quota) in enumerate(zip(problem.ranks, quotas, strict=True))
    )
    return problem.model_copy(update={"ranks": ranks})
