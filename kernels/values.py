"""Exact values of variables, goals and constraints at a decided point."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import (
    Curve,
    Instance,
    LinearConstraint,
    Objective,
    ObjectiveTerm,
    Variable,
)

Number = Fraction | int


class Point(NamedTuple):
    """A value for every decision; by position."""

    capacities: tuple[int, ...]  # tokens by fitted request
    counts: tuple[int, ...]
    chunk: int  # index
    options: tuple[int, ...]
    experts: int
    kept: int  # expert slots that stay during prefill
    usable: tuple[int, ...]  # blocks by pool


class Answer(NamedTuple):
    """A point, the value and upper bound of every goal, and whether they are proven equal."""

    point: Point
    values: tuple[Number, ...]
    bounds: tuple[Number | None, ...]
    exact: bool


def copies_held(instance: Instance, demand: Demand, point: Point, batch: int) -> int:
    """min over pools of floor(usable x u / raw): whole copies of a batch that the blocks hold."""
    raws = demand.raw(batch, point.chunk, point.capacities, point.counts)
    held = [
        usable * pool.use_num // (raw * pool.use_den)
        for raw, usable, pool in zip(raws, point.usable, instance.pools, strict=True)
        if raw
    ]
    return min(held, default=0)


def scale_held(instance: Instance, demand: Demand, point: Point) -> Fraction:
    """min over pools of usable / blocks a copy: how much of the mix the blocks hold."""
    pairs = zip(point.usable, demand.mix(point.chunk), strict=True)
    return min([usable / each for usable, each in pairs if each], default=Fraction(0))


def variable_value(instance: Instance, demand: Demand, point: Point, variable: Variable) -> int:
    """Value of one variable; a choice is worth minus the index of its option."""
    kind, index = variable
    if kind == "blocks":
        return point.usable[index]
    if kind == "capacity":
        return point.capacities[index]
    if kind == "count":
        return point.counts[index]
    if kind == "prefill":
        return instance.chunks[point.chunk]
    if kind == "experts":
        return point.experts
    if kind == "choice":
        return -point.options[index]
    return copies_held(instance, demand, point, index)


def curve_at(curve: Curve, at: int) -> Fraction:
    """Exact worth on a piecewise-linear curve, constant beyond its ends."""
    if at <= curve[0][0]:
        return curve[0][1]
    for (x0, y0), (x1, y1) in pairwise(curve):
        if at <= x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return curve[-1][1]


def rises(term: ObjectiveTerm) -> bool:
    """Whether worth is non-decreasing in the variable."""
    if term.curve is None:
        return term.weight >= 0
    steps = (right[1] - left[1] for left, right in pairwise(term.curve))
    return all(step * term.weight >= 0 for step in steps)


def term_value(term: ObjectiveTerm, at: int) -> Fraction:
    """weight x value, or weight x curve(value)."""
    return term.weight * (at if term.curve is None else curve_at(term.curve, at))


def times(weight: Fraction, value: int) -> Number:
    """weight x value, an integer where the weight is 1."""
    return value if weight.numerator == weight.denominator else weight * value


def goal_value(instance: Instance, demand: Demand, point: Point, goal: Objective) -> Number:
    """Exact value of a goal at a point."""
    single = goal.single
    if single is not None and single.kind == "scale":
        return scale_held(instance, demand, point)
    if single is not None:
        return times(goal.members[0].weight, variable_value(instance, demand, point, single))
    total = Fraction(0)
    for term in goal.members:
        total += term_value(term, variable_value(instance, demand, point, term.variable))
    return total


def goal_values(instance: Instance, demand: Demand, point: Point) -> tuple[Number, ...]:
    """Exact value of every goal at a point; pools that fill are read off."""
    usable = point.usable
    return tuple(
        [
            goal_value(instance, demand, point, goal) if goal.pool is None else usable[goal.pool]
            for goal in instance.objectives
        ]
    )


def constraint_value(
    instance: Instance, demand: Demand, point: Point, constraint: LinearConstraint
) -> int:
    """Left side of a linear constraint at a point."""
    return linear_value(instance, demand, point, constraint.members)


def linear_value(
    instance: Instance, demand: Demand, point: Point, members: Iterable[tuple[int, Variable, int]]
) -> int:
    """sum(coefficient x variable); an option counts 1 where it is chosen."""
    total = 0
    for coefficient, variable, option in members:
        if option >= 0:
            total += coefficient * (point.options[variable.position] == option)
        else:
            total += coefficient * variable_value(instance, demand, point, variable)
    return total


def holds(constraint: LinearConstraint, value: int) -> bool:
    """Whether a left side lies within its bounds."""
    return (constraint.least is None or value >= constraint.least) and (
        constraint.most is None or value <= constraint.most
    )
