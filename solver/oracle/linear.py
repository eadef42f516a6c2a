"""Goals and constraints as sums of worths, each variable's worth a table of exact figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from kvplan.models.goals import Constraint, Goal
from kvplan.models.problem import Problem, request_name
from kvplan.solver.oracle.byte_tables import Array

Points = tuple[tuple[Fraction, Fraction], ...]


@dataclass(frozen=True)
class Linear:
    """Sum of weight x variable, a variable seen through its curve where it has one."""

    label: str
    weights: Mapping[str, Fraction]
    curves: Mapping[str, Points] = field(default_factory=dict)

    def named(self, kind: str) -> list[str]:
        """Names behind the variables `<kind>:<name>`, as written."""
        return [name.partition(":")[2] for name in self.weights if name.startswith(f"{kind}:")]

    @property
    def of_members(self) -> Linear:
        """The part that only requests and the chunk decide."""
        kinds = ("capacity", "count", "prefill")
        own = {name: w for name, w in self.weights.items() if name.partition(":")[0] in kinds}
        return Linear(self.label, own, {n: c for n, c in self.curves.items() if n in own})

    @property
    def members_alone(self) -> bool:
        """Whether nothing but requests and the chunk decides."""
        return len(self.of_members.weights) == len(self.weights)

    @property
    def counts_blocks(self) -> bool:
        """Whether blocks of some pool decide."""
        return bool(self.named("blocks") or self.named("copies"))

    @property
    def copies_alone(self) -> str | None:
        """The batch, where the goal is its whole copies and nothing else."""
        if len(self.weights) > 1 or self.curves or not self.named("copies"):
            return None
        return self.named("copies")[0] if min(self.weights.values()) > 0 else None

    def worth(self, variable: str, value: int | Fraction) -> Fraction:
        """Exact worth of one variable at one value."""
        at = Fraction(value)
        if variable in self.curves:
            at = on_curve(self.curves[variable], at)
        return self.weights[variable] * at

    def value(self, variables: Mapping[str, int | Fraction]) -> Fraction:
        """Exact sum for given values."""
        return sum((self.worth(name, variables[name]) for name in self.weights), Fraction(0))

    def scaled(self, domains: Mapping[str, Sequence[int]]) -> tuple[int, dict[str, Array]]:
        """A common denominator, and tables of worths over whole domains as integers over it."""
        exact = {name: [self.worth(name, value) for value in domains[name]] for name in self.curves}
        parts = [worth for line in exact.values() for worth in line]
        scale = math.lcm(*(part.denominator for part in (*parts, *self.weights.values())))
        whole = {
            name: [int(worth * scale) for worth in exact[name]]
            if name in exact
            else [value * int(weight * scale) for value in domains[name]]
            for name, weight in self.weights.items()
        }
        bound = sum(max((abs(worth) for worth in line), default=0) for line in whole.values())
        if bound >= 2**62:
            raise ValueError(f"{self.label}: worths beyond 2^62 over their common denominator")
        return scale, {name: np.array(line, np.int64) for name, line in whole.items()}


def on_curve(points: Points, at: Fraction) -> Fraction:
    """Worth on a piecewise-linear curve: on the line between neighbours, flat beyond the ends."""
    for left, right in pairwise(points):
        if left[0] <= at <= right[0]:
            share = (at - left[0]) / (right[0] - left[0])
            return left[1] * (1 - share) + right[1] * share
    return points[0][1] if at < points[0][0] else points[-1][1]


def goal_form(goal: Goal) -> Linear:
    """A goal that the user wrote."""
    return Linear(goal.label, goal.maximize, goal.curves)


def constraint_form(constraint: Constraint) -> Linear:
    """The left side of a linear constraint."""
    terms = " + ".join(f"{weight} {name}" for name, weight in constraint.terms.items())
    return Linear(terms, constraint.terms)


def plain(variable: str) -> Linear:
    """The goal that is one variable."""
    return Linear(variable, {variable: Fraction(1)})


def goals_before_fill(problem: Problem) -> list[Linear]:
    """The user's goals, then all default goals, mentioned or not."""
    fitted = [
        plain(f"{request.fit}:{request_name(batch, index)}")
        for batch in problem.batches
        for index, request in enumerate(batch.requests)
        if request.fit != "none"
    ]
    choices = [plain(f"choice:{choice.name}") for choice in problem.choices]
    last = [plain("prefill")] if problem.prefill else []
    last += [plain("experts")] if problem.experts else []
    return [*map(goal_form, problem.goals), *fitted, *choices, *last]


def fill_goals(problem: Problem) -> list[Linear]:
    """Goals of the fill: copies of its batch, then pools in order. Shares follow another rule."""
    fill = problem.fill
    if fill is not None and (fill.none or fill.shares is not None):
        return []
    if fill is not None and fill.pools is not None:
        return [plain(f"blocks:{name}") for name in fill.pools]
    holding = {problem.pool_of(cache) for cache in problem.caches if cache.kind != "state"}
    pools = [plain(f"blocks:{pool.name}") for pool in problem.pools if pool.name in holding]
    if fill is None:
        return pools
    return [plain("scale" if fill.mix else f"copies:{fill.batch}"), *pools]


def goals_in_order(problem: Problem) -> list[Linear]:
    """Every goal as a proof lists them: a default one that the user wrote is not repeated.

    Two may have one label (equal weights, other curves): their place tells them apart.
    """
    written = len(problem.goals)
    forms = [*goals_before_fill(problem), *fill_goals(problem)]
    singles = {goal.single for goal in problem.goals}
    return forms[:written] + [form for form in forms[written:] if form.label not in singles]
