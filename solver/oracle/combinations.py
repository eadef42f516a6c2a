"""Choices and expert slots of a small problem: every combination, with its bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kvplan.models.elastic import Experts, Option
from kvplan.models.problem import Problem
from kvplan.solver.oracle.byte_tables import Array, Budget, fixed_by_budget, slots_by_budget
from kvplan.solver.oracle.memory import expert_bytes, quota_of


class Setting(NamedTuple):
    """One way to settle all choices and the expert slots."""

    options: tuple[int, ...]
    slots: int | None


class Settings:
    """All settings and their bytes, with the fewest slots that prefill may be left with.

    Slots kept in prefill appear in no goal and no constraint, and more of them never take fewer
    bytes (verified), so a setting fits with some number of them if it fits with the fewest.
    """

    def __init__(
        self, problem: Problem, budgets: Sequence[Budget], check_size: Callable[[int], None]
    ) -> None:
        self.problem = problem
        self.in_prefill = np.array([budget.phase == "prefill" for budget in budgets])
        self.slots: Sequence[int | None] = (None,)
        if problem.experts is not None:
            self.slots = legal_slots(problem, problem.experts, check_size)
            self.slots_by_budget = slots_by_budget(problem.experts, budgets, self.slots[-1])
        ways = itertools.product(*(range(len(choice.options)) for choice in problem.choices))
        self.all = [Setting(way, slots) for way in ways for slots in self.slots]
        check_size(len(self.all))
        fixed = fixed_by_budget(budgets, problem.consumers)
        chosen = {
            way: fixed + fixed_by_budget(budgets, self._options(way))
            for way in {setting.options for setting in self.all}
        }
        table = [chosen[each.options] + self.kept(each)[1][0] for each in self.all]
        self.table: Array = np.array(table, np.int64)  # [setting, budget]

    def _options(self, way: tuple[int, ...]) -> tuple[Option, ...]:
        return tuple(
            choice.options[index] for choice, index in zip(self.problem.choices, way, strict=True)
        )

    def kept(self, setting: Setting) -> tuple[list[int | None], Array]:
        """Slots that may stay in prefill, rising, and bytes of all slots [kept, budget]."""
        if setting.slots is None or self.problem.experts is None:
            return [None], np.zeros((1, len(self.in_prefill)), np.int64)
        kept = [
            n for n in range(setting.slots + 1) if may_keep(self.problem.experts, setting.slots, n)
        ]
        table = np.where(
            self.in_prefill, self.slots_by_budget[kept], self.slots_by_budget[setting.slots]
        )
        return [*kept], table

    def values(self, variable: str) -> list[int]:  # of every setting
        """Value of `experts`, `choice:<name>` or `choice:<name>=<option>` in every setting."""
        if variable == "experts":
            return [setting.slots or 0 for setting in self.all]
        name, _, option = variable.removeprefix("choice:").partition("=")
        names = [choice.name for choice in self.problem.choices]
        # A name may itself hold an equals sign; the whole of it goes first.
        if variable.removeprefix("choice:") in names:
            index = names.index(variable.removeprefix("choice:"))
            return [-setting.options[index] for setting in self.all]
        index = names.index(name)
        wanted = [each.name for each in self.problem.choices[index].options].index(option)
        return [int(setting.options[index] == wanted) for setting in self.all]


def legal_slots(problem: Problem, experts: Experts, check_size: Callable[[int], None]) -> range:
    """Numbers of slots from min_slots up to what max_slots, the sizes and the quotas allow."""
    most, count = most_slots(experts), experts.min_slots
    quotas = [(rank.stage, quota_of(rank).bytes) for rank in problem.ranks]
    while (most is None or count < most) and all(
        expert_bytes(experts, stage, count + 1) <= quota for stage, quota in quotas
    ):
        count += 1
        check_size(count)
    return range(experts.min_slots, count + 1)


def most_slots(experts: Experts) -> int | None:
    """Slots at most, where something but bytes says so."""
    bounds = [] if experts.max_slots is None else [experts.max_slots]
    if not isinstance(experts.slot_bytes, int):
        bounds.append(sum(count for count, _ in experts.slot_bytes))
    return min(bounds, default=None)


def may_keep(experts: Experts, slots: int, kept: int) -> bool:
    """Whether `kept` of the slots may stay in prefill, the others being lent."""
    if experts.lend is None or kept == slots:
        return kept == slots
    return experts.lend.keep <= kept < slots and slots - kept <= experts.lend.fraction * slots
