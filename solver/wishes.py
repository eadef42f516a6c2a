"""Goals, linear constraints and fill of a problem over numbered variables."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import lcm

from kvplan.kernels.terms import Fitted, GoalTerm, GoalTerms, LinearTerms, Variable
from kvplan.models import Problem
from kvplan.models.goals import Constraint, Goal


def numbered_variables(
    problem: Problem, fitted: tuple[Fitted, ...]
) -> dict[str, tuple[Variable, int]]:
    """Every variable by its public name; with the option's index for choice:<name>=<option>."""
    known = {
        f"blocks:{pool.name}": (Variable("blocks", i), -1) for i, pool in enumerate(problem.pools)
    }
    for i, request in enumerate(fitted):
        kind = "count" if request.is_count else "capacity"
        known[f"{kind}:{request.name}"] = (Variable(kind, i), -1)
    known["prefill"] = (Variable("prefill"), -1)
    known["experts"] = (Variable("experts"), -1)
    for i, choice in enumerate(problem.choices):
        known[f"choice:{choice.name}"] = (Variable("choice", i), -1)
        for o, option in enumerate(choice.options):
            known[f"choice:{choice.name}={option.name}"] = (Variable("choice", i), o)
    for i, batch in enumerate(problem.batches):
        known[f"copies:{batch.name}"] = (Variable("copies", i), -1)
    return known


def goal_terms(
    problem: Problem, variables: dict[str, tuple[Variable, int]], fitted: tuple[Fitted, ...]
) -> tuple[tuple[GoalTerms, ...], int]:
    """The user's goals, the default ones, then fill; and where fill begins."""

    def terms(goal: Goal) -> GoalTerms:
        return GoalTerms(
            goal.label,
            tuple(
                GoalTerm(variables[name][0], weight, goal.curves.get(name))
                for name, weight in goal.maximize.items()
            ),
        )

    written = tuple(map(terms, problem.goals))
    done = {goal.single for goal in written}

    def further(labels: Iterable[str]) -> tuple[GoalTerms, ...]:
        return tuple(
            GoalTerms(label, (GoalTerm(variables[label][0], Fraction(1), None),))
            for label in labels
            if variables[label][0] not in done
        )

    decided = written + further(_default_goals(problem, fitted))
    return decided + further(_fill_goals(problem)), len(decided)


def _default_goals(problem: Problem, fitted: tuple[Fitted, ...]) -> Iterable[str]:
    for request in fitted:
        yield f"{'count' if request.is_count else 'capacity'}:{request.name}"
    for choice in problem.choices:
        yield f"choice:{choice.name}"
    if problem.prefill is not None:
        yield "prefill"
    if problem.experts is not None:
        yield "experts"


def _fill_goals(problem: Problem) -> Iterable[str]:
    if problem.fill is not None and problem.fill.batch is not None:
        yield f"copies:{problem.fill.batch}"
    for index in fill_pools(problem):
        yield f"blocks:{problem.pools[index].name}"


def linear_terms(constraint: Constraint, variables: dict[str, tuple[Variable, int]]) -> LinearTerms:
    """Scale a constraint to integers by the least common denominator of its coefficients."""
    scale = lcm(*(coefficient.denominator for coefficient in constraint.terms.values()))
    terms = tuple(
        (int(coefficient * scale), *variables[name])
        for name, coefficient in constraint.terms.items()
    )
    least = None if constraint.min is None else -((-constraint.min * scale) // 1)
    most = None if constraint.max is None else (constraint.max * scale) // 1
    return LinearTerms(
        terms, None if least is None else int(least), None if most is None else int(most)
    )


def default_fill_pools(problem: Problem) -> tuple[str, ...]:
    """Pools with a cache other than state, in the order written."""
    growing = {problem.pool_of(cache) for cache in problem.caches if cache.kind != "state"}
    return tuple(pool.name for pool in problem.pools if pool.name in growing)


def fill_pools(problem: Problem) -> tuple[int, ...]:
    fill = problem.fill
    if fill is not None and (fill.none or fill.shares is not None):
        return ()
    named = (
        fill.pools if fill is not None and fill.pools is not None else default_fill_pools(problem)
    )
    index = {pool.name: i for i, pool in enumerate(problem.pools)}
    return tuple(index[name] for name in named)


def fill_shares(problem: Problem) -> tuple[tuple[int, Fraction], ...]:
    shares = problem.fill.shares if problem.fill is not None else None
    index = {pool.name: i for i, pool in enumerate(problem.pools)}
    return tuple((index[name], share) for name, share in (shares or {}).items())
