"""Answers at other quotas: the same integers with the limits of some ranks moved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from kvplan.kernels.instance import Instance
from kvplan.models import Problem
from kvplan.models.elastic import Consumer, Option
from kvplan.models.ranks import at_rank
from kvplan.solver.answer.in_use import budget_bytes
from kvplan.solver.answer.shortages import shortage_at_floors
from kvplan.solver.explain.feasible import goal_values
from kvplan.solver.formulate.budgets import auto_granule, build_budgets, merge_budgets
from kvplan.solver.formulate.formulation import formulate

Values = tuple[Fraction, ...]


class MovedQuotas:
    """Goal values of a problem by how many bytes some ranks have more (or fewer)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._formulation = formulate(problem)
        self.instance = self._formulation.instance
        self.automatic = problem.has_auto_granules
        self._by_granules: dict[tuple[int, ...], Instance] = {}
        self._known: dict[tuple[frozenset[int], int], Values | None] = {}

    def values(self, ranks: Collection[int], more_bytes: int) -> Values | None:
        """Value of every goal with `more_bytes` on each of some ranks; None: nothing fits.

        Raises
        ------
        SolverError : an answer there is not proven.
        """
        key = (frozenset(ranks), more_bytes)
        if key not in self._known:
            self._known[key] = goal_values(self._terms(key[0], more_bytes))
        return self._known[key]

    def floor_slack(self) -> list[int]:
        """Bytes left on every rank with everything elastic at its floor."""
        point = shortage_at_floors(self.instance).point
        slack = [rank.quota_bytes for rank in self.problem.ranks]
        for budget in self.instance.every_budget:
            free = budget.limit_bytes - budget_bytes(self.instance, budget, point)
            slack[budget.rank] = min(slack[budget.rank], free)
        return slack

    def _terms(self, ranks: frozenset[int], more_bytes: int) -> Instance:
        """Budgets of the granules at the new quotas, every limit moved."""
        granules = self._granules(ranks, more_bytes)
        base = self._by_granules.get(granules)
        if base is None:
            named = zip(self.problem.ranks, granules, strict=True)
            sizes = {rank.name: size for rank, size in named}
            budgets = build_budgets(self.problem, sizes, self._formulation.fitted_at)
            base = self._by_granules[granules] = self.instance._replace(every_budget=budgets)
        moved = tuple(
            budget._replace(
                limit_bytes=budget.limit_bytes + more_bytes, quota=budget.quota + more_bytes
            )
            if budget.rank in ranks
            else budget
            for budget in base.every_budget
        )
        return base._replace(every_budget=moved, budgets=merge_budgets(moved))

    def _granules(self, ranks: frozenset[int], more_bytes: int) -> tuple[int, ...]:
        """The "auto" granule of every rank; 1 where no pool asks for it."""
        return tuple(
            auto_granule(rank.quota_bytes + more_bytes * (i in ranks)) if self.automatic else 1
            for i, rank in enumerate(self.problem.ranks)
        )


def alike(problem: Problem) -> Mapping[tuple[int, ...], str]:
    """Groups of ranks that break at the same bytes, with the name of each group."""
    living: list[Consumer | Option] = [*problem.consumers]
    living += (option for choice in problem.choices for option in choice.options)
    groups: dict[str, list[int]] = {}
    for index, rank in enumerate(problem.ranks):
        own = [at_rank(part.bytes, rank) for part in living]
        own += [at_rank(part.per_request, rank) for part in problem.consumers]
        key = repr((rank.model_dump(exclude={"name"}), own))
        groups.setdefault(key, []).append(index)
    return {tuple(members): problem.ranks[members[0]].name for members in groups.values()}
