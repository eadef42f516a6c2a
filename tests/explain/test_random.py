"""A thousand random problems without a plan: conflicts minimal, remedies true and none missing."""

from __future__ import annotations

import os
from fractions import Fraction

import pytest

from kvplan.models import Advice, Problem, Remedy
from kvplan.solver.explain import advise
from kvplan.solver.explain.conflict.items import ENDLESS, Item, items_of, without
from kvplan.solver.explain.conflict.minimal import minimal_conflict
from support.draw import Data
from support.infeasible import has_plan, infeasible_problem, works
from support.singles import extremes, wanted

INSTANCES, PART = 1000, 50
# Trying every value of every field takes its time: all instances in CI, every eighth elsewhere.
STRIDE = 1 if os.environ.get("CI") else 8


@pytest.mark.parametrize("start", range(0, INSTANCES, PART))
def test_conflicts_are_minimal_and_remedies_hold(start: int) -> None:
    for seed in range(start, start + PART):
        data, problem = infeasible_problem(seed)
        try:
            _check_conflict(problem)
            advice = advise(problem)
            assert advice.conflict
            _check_remedies(data, advice)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("start", range(0, INSTANCES, PART))
def test_no_single_change_is_missed(start: int) -> None:
    for seed in range(start, start + PART, STRIDE):
        data, problem = infeasible_problem(seed)
        found = {remedy.change: remedy.to for remedy in advise(problem).remedies}
        for path, value in wanted(data):
            assert str(found.get(path)) == str(value), (seed, path, value, found)
        for path in extremes(data):
            assert path in found, (seed, path, found)


def _check_conflict(problem: Problem) -> None:
    """All members together have no plan; without any one of them there is one."""
    everything = frozenset(items_of(problem))
    conflict = minimal_conflict(problem)
    others = everything.difference(conflict)
    assert not _has_plan_without(problem, others), conflict
    for item in conflict:
        assert _has_plan_without(problem, others | {item}), (item, conflict)


def _has_plan_without(problem: Problem, dropped: frozenset[Item]) -> bool:
    """A dropped quota is a large one here: the judge's figures stay within 64 bits."""
    rest = without(problem, None, dropped)[0]
    ranks = tuple(
        rank.model_copy(update={"quota": 2**52}) if rank.quota == ENDLESS else rank
        for rank in rest.ranks
    )
    return has_plan(rest.model_copy(update={"ranks": ranks}))


def _check_remedies(data: Data, advice: Advice) -> None:
    """Each works through --set, and one step less does not."""
    for remedy in advice.remedies:
        assert works(data, f"{remedy.change}={remedy.to}"), remedy
        for value in _one_step_less(remedy):
            assert not works(data, f"{remedy.change}={value}"), (remedy, value)


def _one_step_less(remedy: Remedy) -> list[int | str]:
    """The value one step nearer to what the field says now, where it has steps."""
    before, after = remedy.from_, remedy.to
    if isinstance(before, int) and isinstance(after, int):
        return [after + (1 if before > after else -1)]
    if remedy.change.endswith("tilization"):
        less = Fraction(str(after)) * 100 - 1
        return [f"0.{int(less):02d}"] if less > Fraction(str(before)) * 100 else []
    return []
