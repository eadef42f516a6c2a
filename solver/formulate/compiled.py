"""A problem compiled: its integers and its search, for the quotas it has and for any others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from kvplan.kernels.instance import Instance
from kvplan.kernels.search.search import Search
from kvplan.models import Problem
from kvplan.solver.formulate.budgets import merge_budgets, merge_key
from kvplan.solver.formulate.formulation import Formulation, Held, formulate


class Compiled:
    """A formulation and its search, which other quotas share.

    Parameters
    ----------
    problem : one problem of the layout; a rank with `memory` keeps its quota in all of them.
    held : granules and floors that a resize keeps.
    """

    def __init__(self, problem: Problem, held: Held | None = None) -> None:
        self.formulation = formulate(problem, held)
        self.search = Search(self.formulation.instance)
        quotas = quotas_of(problem)
        every = self.formulation.instance.every_budget
        self._fixed = [(budget.rank, quotas[budget.rank] - budget.limit_bytes) for budget in every]
        groups: dict[Hashable, list[int]] = {}
        for number, budget in enumerate(every):
            groups.setdefault(merge_key(budget), []).append(number)
        self._groups = list(groups.values())

    def at(
        self, quotas: Sequence[int], problem: Callable[[], Problem]
    ) -> tuple[Formulation, Search]:
        """The same for a problem that differs in quotas alone; needs stay computed.

        Parameters
        ----------
        quotas : bytes by rank of that problem.
        problem : that problem, on first use.
        """
        formulation = self.formulation.at(quotas, lambda: (problem(), self._moved(quotas)))
        fixed = self._fixed
        limits = [
            min([quotas[rank] - taken for rank, taken in [fixed[i] for i in group]])
            for group in self._groups
        ]
        return formulation, self.search.with_limits(limits, lambda: formulation.instance)

    def _moved(self, quotas: Sequence[int]) -> Instance:
        """The integers at other quotas."""
        instance, own = self.formulation.instance, self.formulation.problem.ranks
        budgets = tuple(
            budget._replace(
                limit_bytes=quotas[rank] - taken,
                # A headroom budget has a quota of its own, beside that of its rank.
                quota=quotas[rank] if own[rank].memory is None else budget.quota,
            )
            for budget, (rank, taken) in zip(instance.every_budget, self._fixed, strict=True)
        )
        return instance._replace(budgets=merge_budgets(budgets), every_budget=budgets)


def quotas_of(problem: Problem) -> tuple[int, ...]:
    """Bytes by rank."""
    return tuple([rank.quota_bytes for rank in problem.ranks])
