"""A problem's integers, for the quotas that it has and for any others."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from kvplan.kernels.instance import Budget, GivenRequests
from kvplan.kernels.nested import Search
from kvplan.models import Plan, Problem
from kvplan.models.demands import Batch
from kvplan.models.immutable.lazy import cached_property
from kvplan.models.plan import Solver
from kvplan.models.ranks import Rank
from kvplan.solver.answer.assemble import Credit, Moved, assemble
from kvplan.solver.answer.refusal import infeasible
from kvplan.solver.formulate.budgets import auto_granule, merge_key
from kvplan.solver.formulate.formulation import Formulation, formulate
from kvplan.solver.solve.choose import plan_formulation, resizable
from kvplan.solver.unrolled import Holds, unrolled_check

if TYPE_CHECKING:
    from kvplan.solver.solve.device import Device

_COMPARED = {"name", "ranks", "batches"}  # from no name follows an integer; the others come first

_WHOLE = {int, bool, str, type(None)}


class Shape:
    """A formulation whose rows take other quotas.

    Parameters
    ----------
    problem : one of its problems; a rank with `memory` keeps its quota in all of them.
    planned_often : whether it pays to write its check out.
    """

    def __init__(self, problem: Problem, *, planned_often: bool = False) -> None:
        self.problem = problem
        self._planned_often = planned_often
        self.formulation = formulate(problem)
        self.nested = Search(self.formulation.instance)

    def is_of(self, problem: Problem) -> bool:
        """Whether a problem has the same integers but for the rooms of its rows."""
        mine, other = vars(self.problem), vars(problem)
        if type(problem) is not type(self.problem) or mine.keys() != other.keys():
            return False
        ours, theirs = self.problem.ranks, problem.ranks
        if len(ours) != len(theirs) or not all(map(self._is_alike, ours, theirs)):
            return False
        # Batches are what differs most often; the other fields follow as they are written.
        return (
            self._has_batches(problem.batches)
            and all(
                mine[field] is value or mine[field] == value
                for field, value in other.items()
                if field not in _COMPARED
            )
            and self._orders == _orders_of(problem)
            and self._is_exact
        )

    @cached_property
    def _orders(self) -> list[list[str]]:
        return _orders_of(self.problem)

    @cached_property
    def _is_exact(self) -> bool:
        """Whether its integers are integers, not floats or fractions that equal them.

        Else nobody validated the problem (`model_copy`, `model_construct`); it answers for itself.
        """
        instance = self.formulation.instance
        wishes = instance.goals, instance.fill_shares
        return _holds_only(_WHOLE, instance._replace(goals=(), fill_shares=())) and _holds_only(
            _WHOLE | {Fraction}, wishes
        )

    def _is_alike(self, ours: Rank, theirs: Rank) -> bool:
        """Ranks that differ in a declared quota at most, "auto" granules being the same."""
        if ours.quota == theirs.quota or ours.quota is None or theirs.quota is None:
            return ours == theirs
        if ours.memory is not None or theirs.memory is not None:
            return False  # a quota and readings: nobody validated it
        if self.has_auto and auto_granule(ours.quota) != auto_granule(theirs.quota):
            return False
        return ours.name == theirs.name and ours.stage == theirs.stage

    def _has_batches(self, batches: tuple[Batch, ...]) -> bool:
        """Whether batches are the same; Pydantic would compare a thousand requests slowly."""
        return len(batches) == len(self._batches) and all(
            batch.name == name
            and batch.shared_prefix == prefix
            and [*map(vars, batch.requests)] == requests
            for batch, (name, prefix, requests) in zip(batches, self._batches, strict=True)
        )

    @cached_property
    def _batches(self) -> list[tuple[str, int, list[dict[str, Any]]]]:
        """Name, shared prefix and requests of each batch, these by field."""
        return [
            (batch.name, batch.shared_prefix, [*map(vars, batch.requests)])
            for batch in self.problem.batches
        ]

    @cached_property
    def has_auto(self) -> bool:
        """Whether some granule follows the quotas."""
        return self.problem.has_auto_granules

    # --- other quotas --------------------------------------------------------------------------

    @cached_property
    def _fixed(self) -> list[tuple[int, int]]:
        """(rank, what is not for its pools) of every row, in bytes.

        A headroom row has a quota of its own, which stays beside that of its rank.
        """
        quotas = quotas_of(self.problem)
        return [
            (row.rank, quotas[row.rank] - row.limit_bytes)
            for row in self.formulation.instance.every_budget
        ]

    @cached_property
    def _groups(self) -> list[list[int]]:
        """Numbers of the rows with equal left sides."""
        groups: dict[object, list[int]] = {}
        for number, row in enumerate(self.formulation.instance.every_budget):
            groups.setdefault(merge_key(row), []).append(number)
        return list(groups.values())

    @cached_property
    def _tightest(self) -> list[list[tuple[int, int]]]:
        """(rank, fixed bytes) of each rank's tightest row, by group."""
        found = []
        for group in self._groups:
            most: dict[int, int] = {}
            for number in group:
                rank, fixed = self._fixed[number]
                most[rank] = max(fixed, most.get(rank, fixed))
            found.append(list(most.items()))
        return found

    @cached_property
    def _holds(self) -> Holds | None:
        """The check of a direct shape written out, if that pays."""
        if not self._planned_often:
            return None
        return unrolled_check(self.formulation.instance, self.nested.demand)

    def at(self, quotas: tuple[int, ...], problem: Problem) -> tuple[Formulation, Search]:
        """The formulation and its search for a problem of this shape; needs stay computed.

        Parameters
        ----------
        quotas : bytes by rank of that problem.
        """
        own = self.problem.ranks
        rows = [
            row._replace(
                limit_bytes=quotas[rank] - fixed,
                quota=quotas[rank] if own[rank].memory is None else row.quota,
            )
            for row, (rank, fixed) in zip(
                self.formulation.instance.every_budget, self._fixed, strict=True
            )
        ]
        merged = [min([rows[i] for i in group], key=_room) for group in self._groups]
        instance = self.formulation.instance._replace(
            budgets=tuple(merged), every_budget=tuple(rows)
        )
        formulation = self.formulation._replace(problem=problem, instance=instance)
        return formulation, self.nested.rebased(instance)

    def plan(
        self,
        quotas: tuple[int, ...],
        problem: Callable[[], Problem],
        solver: Solver,
        deadline: float | None,
        on: Device | None,
    ) -> Plan:
        """A plan for other quotas; where the way is straight, no row is written for it.

        Parameters
        ----------
        quotas : bytes by rank.
        problem : makes the problem of this shape that has them, once it is needed.
        """
        direct = self.nested.direct
        if solver != "auto" or direct is None:
            formulation, nested = self.at(quotas, problem())
            return plan_formulation(formulation, nested, solver=solver, deadline=deadline, on=on)
        rooms = [quotas[rank] - fixed for rank, fixed in self._fixed]
        answer = direct.answer(
            [min([quotas[rank] - fixed for rank, fixed in tightest]) for tightest in self._tightest]
        )

        def moved() -> Formulation:
            return self.at(quotas, problem())[0]

        if answer is None:
            raise infeasible(*self.at(quotas, problem()))
        credit = Credit(solver, "nested")
        moved_to = Moved(rooms, self._holds, moved)
        found = assemble(self.formulation, self.nested, answer, credit, moved_to)
        return resizable(found, moved, solver, deadline)


def quotas_of(problem: Problem) -> tuple[int, ...]:
    """Bytes by rank."""
    return tuple([rank.quota_bytes for rank in problem.ranks])


def _orders_of(problem: Problem) -> list[list[str]]:
    """Keys of the mappings whose order counts: an equal one may have another."""
    orders = [[*goal.maximize] for goal in problem.goals]
    orders += [[*constraint.terms] for constraint in problem.constraints]
    if problem.fill is not None and problem.fill.shares is not None:
        orders.append([*problem.fill.shares])
    return orders


def _holds_only(kinds: set[type], value: object) -> bool:
    """Whether there is nothing in a value, however deep, but values of some kinds."""
    if isinstance(value, tuple):
        return all(_holds_only(kinds, part) for part in value)
    if isinstance(value, GivenRequests):
        return all(kinds.issuperset(map(type, column)) for column in value.columns)
    return type(value) in kinds


def _room(row: Budget) -> int:
    return row.limit_bytes
