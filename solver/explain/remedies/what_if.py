"""One infeasible problem and what a change of it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.models import InvalidProblem, Problem
from kvplan.models.immutable.lazy import cached_property
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver.answer.notes import describe
from kvplan.solver.answer.shortages import Shortage, shortage_at_floors
from kvplan.solver.explain.conflict.items import Item, without
from kvplan.solver.explain.feasible import UnprovenError, bare, fits
from kvplan.solver.formulate.formulation import Formulation, Held, copied_batches, formulate

_ASIDE = ("relax", "variants", "labels")
OUTSIDE = "not involved in the conflict"


class WhatIf:
    """A problem with its conflict; changes are applied as --set applies them.

    Attributes
    ----------
    undecided : questions about the remedies that CP-SAT left open.
    """

    def __init__(self, problem: Problem, held: Held | None, conflict: Sequence[Item]) -> None:
        self.problem, self.held = problem, held
        self.conflict = frozenset(conflict)
        self.undecided = 0
        self._hopeless: dict[frozenset[Item], str] = {}

    @cached_property
    def data(self) -> dict[str, Any]:
        """The problem as plain data, without what is only for explanations."""
        data = self.problem.model_dump(mode="json", exclude_unset=True)
        return {key: value for key, value in data.items() if key not in _ASIDE}

    @cached_property
    def shortage(self) -> Shortage:
        """What the least demand of the problem lacks; a source of guesses."""
        return shortage_of(self.problem, self.held)[1]

    @cached_property
    def _counts_copies(self) -> bool:
        return bool(copied_batches(formulate(self.problem, self.held).instance))

    def hopeless(self, eases: frozenset[Item]) -> str:
        """Why no change of these demands can help; empty where one may."""
        if not eases:
            return ""
        whole = {Item("batch", item.at[:1]) for item in eases if item.kind == "request"}
        if not self.problem.constraints and not (eases | whole) & self.conflict:
            return OUTSIDE
        if eases not in self._hopeless:
            why = self._lacking_without(eases)
            self._hopeless[eases] = why and f"does not fit without it either: {why}"
        return self._hopeless[eases]

    def _lacking_without(self, eases: frozenset[Item]) -> str:
        """What falls short without some demands; empty where nothing does, or nobody knows."""
        problem, held = without(self.problem, self.held, eases)
        try:
            return "" if fits(problem, held) else self._still(*shortage_of(problem, held))
        except UnprovenError:
            self.undecided += 1
            return ""

    def short_bytes(self, rank: int | None = None) -> int:
        """Bytes that a rank (or the shortest of all) lacks in its worst phase."""
        budgets = self.shortage.budgets
        return max(
            (missing for budget, missing in budgets if rank in (None, budget.rank)), default=0
        )

    def changed(self, *overrides: str) -> Problem:
        """The problem after --set.

        Raises
        ------
        InvalidProblem : the change makes it invalid.
        """
        return Problem.model_validate(apply_overrides(self.data, overrides))

    def fits_with(self, *overrides: str) -> bool:
        """Whether the problem has a plan after --set; raises as `fits` does."""
        try:
            return self.fits_as(self.changed(*overrides))
        except InvalidProblem:
            return False

    def fits_as(self, problem: Problem) -> bool:
        """Whether a changed problem has a plan."""
        try:
            if self._counts_copies:
                formulate(problem, self.held)  # for faults of the whole
            return fits(problem, self.held)
        except InvalidProblem:
            return False

    def why_not(self, *overrides: str) -> str:
        """What still falls short, or is invalid, after a change."""
        try:
            problem = self.changed(*overrides)
            formulation, shortage = shortage_of(problem, self.held)
        except InvalidProblem as error:
            return f"invalid: {error.faults[0]}"
        return self._still(formulation, shortage)

    @staticmethod
    def _still(formulation: Formulation, shortage: Shortage) -> str:
        if shortage.budgets or shortage.pools:
            return describe(formulation, shortage)
        return "the linear constraints still cannot hold"


def shortage_of(problem: Problem, held: Held | None) -> tuple[Formulation, Shortage]:
    """The least demand of a problem and what it lacks."""
    formulation = formulate(bare(problem), held)
    return formulation, shortage_at_floors(formulation.instance)
