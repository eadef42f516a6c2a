"""A problem compiled: its integers and its search, for the quotas it has and for any others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kvplan.kernels.instance import Budget
from kvplan.kernels.search.search import Search
from kvplan.models import Problem
from kvplan.solver.formulate.budgets import merge_key
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

    def at(self, problem: Problem, quotas: Sequence[int]) -> tuple[Formulation, Search]:
        """The same for a problem that differs in quotas alone; needs stay computed.

        Parameters
        ----------
        quotas : bytes by rank of that problem.
        """
        instance, own = self.formulation.instance, self.formulation.problem.ranks
        budgets = [
            budget._replace(
                limit_bytes=quotas[rank] - fixed,
                # A headroom budget has a quota of its own, beside that of its rank.
                quota=quotas[rank] if own[rank].memory is None else budget.quota,
            )
            for budget, (rank, fixed) in zip(instance.every_budget, self._fixed, strict=True)
        ]
        tightest = [min([budgets[i] for i in group], key=_limit) for group in self._groups]
        moved = instance._replace(budgets=tuple(tightest), every_budget=tuple(budgets))
        return (
            self.formulation._replace(problem=problem, instance=moved),
            self.search.with_limits(moved),
        )


def quotas_of(problem: Problem) -> tuple[int, ...]:
    """Bytes by rank."""
    return tuple([rank.quota_bytes for rank in problem.ranks])


def _limit(budget: Budget) -> int:
    return budget.limit_bytes
