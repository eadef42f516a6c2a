"""Constraints and goals, one after the other, over the points of a small problem."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from kvplan.models.problem import Problem
from kvplan.solver.oracle.byte_tables import Array
from kvplan.solver.oracle.enumeration.points import Mask, Points
from kvplan.solver.oracle.linear import Linear, constraint_form

HANDFUL = 2**17
"""Cells that are opened at once rather than in the order of the goals."""


class Rule(NamedTuple):
    """A linear constraint."""

    form: Linear
    least: Fraction | None
    most: Fraction | None


def rules_of(problem: Problem) -> list[Rule]:
    """Linear constraints; those that need fewer block counts first: they leave fewer points."""
    rules = [Rule(constraint_form(each), each.min, each.max) for each in problem.constraints]
    return sorted(rules, key=lambda rule: len(rule.form.named("blocks")))


def obey(points: Points, rule: Rule) -> None:
    """Keep the points within a linear constraint."""
    if not rule.form.members_alone:
        points.open(rule.form)
    value, scale = points.measure(rule.form)
    points.keep_where(rule.form, _between(rule, value, value, scale))


def _between(rule: Rule, low: Array, high: Array, scale: int) -> Mask:
    """Where some value from low to high (times a denominator) may obey a rule."""
    inside: Mask = np.ones(len(low), np.bool_)
    if rule.least is not None:
        inside &= high >= _clipped(math.ceil(rule.least * scale))
    if rule.most is not None:
        inside &= low <= _clipped(math.floor(rule.most * scale))
    return inside


def _clipped(bound: int) -> int:
    # Values stay below 2^62 in size, so a bound beyond that says no more than 2^62.
    return max(-(2**62), min(2**62, bound))


def maximise(points: Points, form: Linear) -> Fraction:
    """Keep the points with the best value of a goal, and say what it is."""
    if form.copies_alone is not None:
        copies = points.raise_copies(form.copies_alone)
        return form.value({f"copies:{form.copies_alone}": copies})
    if not form.members_alone:
        points.open(form)
    top, scale, mask = next(_levels(points, form))
    points.keep_where(form, mask)
    return Fraction(top, scale)


def _levels(points: Points, form: Linear) -> Iterator[tuple[int, int, Mask]]:
    """Values of an opened form from the best down, each with where it is reached."""
    value, scale = points.measure(form)
    present: Array = value[points.alive] if form.members_alone else value
    for level in np.unique(present)[::-1]:
        yield int(level), scale, value == level


def obey_all(points: Points, rules: Sequence[Rule], goals: Sequence[Linear]) -> Points | None:
    """Narrow points to those within rules on blocks, worse values of leading goals left aside.

    Counting blocks of every point would be too much. So the leading goals that leave blocks out
    are walked from their best values down, and the first points that hold one within the rules are
    all that is kept: whatever comes later may not give back what these goals won.
    """
    for rule in rules:
        # What more blocks could not mend need not be counted out.
        points.keep(_between(rule, *points.reach(rule.form)))
    if not len(points):
        return None
    cells = len(points) * math.prod(_lengths(points, rules))
    if cells <= HANDFUL or not goals or goals[0].counts_blocks:
        for rule in rules:
            obey(points, rule)
        return points if len(points) else None
    if not goals[0].members_alone:
        points.open(goals[0])
    for _, _, mask in _levels(points, goals[0]):
        level = points.copy()
        level.keep_where(goals[0], mask)
        found = obey_all(level, rules, goals[1:])
        if found is not None:
            return found
    return None


def _lengths(points: Points, rules: Sequence[Rule]) -> list[int]:
    """Counts that are left to all pools that the rules look at."""
    space = points.space
    pools = {space.pool_index(name) for rule in rules for name in rule.form.named("blocks")}
    for rule in rules:
        for name in rule.form.named("copies"):
            pools.update(int(pool) for pool in np.flatnonzero(space.raws[name].any(axis=0)))
    fewest = points.counts.min(axis=0)
    return [len(space.pools[pool].usable) - int(fewest[pool]) for pool in pools - points.chosen]
