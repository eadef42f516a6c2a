"""Goals, linear constraints and fill of a problem over numbered variables."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import lcm

from kvplan.kernels.instance import (
    LinearConstraint,
    MixRule,
    Objective,
    ObjectiveTerm,
    Variable,
    VariableRequest,
)
from kvplan.models import Problem
from kvplan.models.goals import Constraint, Goal


def numbered_variables(
    problem: Problem, fitted: tuple[VariableRequest, ...]
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


def objectives(
    problem: Problem,
    variables: dict[str, tuple[Variable, int]],
    fitted: tuple[VariableRequest, ...],
    filled: tuple[int, ...],
) -> tuple[tuple[Objective, ...], int]:
    """The user's goals, the default ones, then fill of some pools; and where fill begins."""

    def objective(goal: Goal) -> Objective:
        return Objective.of(
            goal.label,
            tuple(
                ObjectiveTerm(variables[name][0], weight, goal.curves.get(name))
                for name, weight in goal.maximize.items()
            ),
        )

    written = [objective(goal) for goal in problem.goals]
    decided = _default_goals(problem, fitted)
    rest = _fill_goals(problem, filled)
    if written:
        done = {goal.single for goal in written}
        decided = written + [goal for goal in decided if goal.single not in done]
        rest = [goal for goal in rest if goal.single not in done]
    return (*decided, *rest), len(decided)


@lru_cache(maxsize=4096)
def plain_goal(label: str, kind: str, position: int) -> Objective:
    """The goal of one variable, as large as it gets; the same one for the same arguments."""
    return Objective.of(label, (ObjectiveTerm(Variable(kind, position), Fraction(1), None),))


def _default_goals(problem: Problem, fitted: tuple[VariableRequest, ...]) -> list[Objective]:
    goals = []
    for index, request in enumerate(fitted):
        kind = "count" if request.is_count else "capacity"
        goals.append(plain_goal(f"{kind}:{request.name}", kind, index))
    for index, choice in enumerate(problem.choices):
        goals.append(plain_goal(f"choice:{choice.name}", "choice", index))
    if problem.prefill is not None:
        goals.append(plain_goal("prefill", "prefill", 0))
    if problem.experts is not None:
        goals.append(plain_goal("experts", "experts", 0))
    return goals


def _fill_goals(problem: Problem, filled: tuple[int, ...]) -> list[Objective]:
    pools = problem.pools
    goals = [plain_goal("blocks:" + pools[index].name, "blocks", index) for index in filled]
    batch = fill_batch(problem)
    if problem.fill is not None and problem.fill.mix is not None:
        goals.insert(0, plain_goal("scale", "scale", 0))
    if batch is not None:
        goals.insert(0, plain_goal(f"copies:{problem.batches[batch].name}", "copies", batch))
    return goals


def linear_constraint(
    constraint: Constraint, variables: dict[str, tuple[Variable, int]]
) -> LinearConstraint:
    """Scale a constraint to integers by the least common denominator of its coefficients."""
    scale = lcm(*(coefficient.denominator for coefficient in constraint.terms.values()))
    members = tuple(
        (int(coefficient * scale), *variables[name])
        for name, coefficient in constraint.terms.items()
    )
    least = None if constraint.min is None else -((-constraint.min * scale) // 1)
    most = None if constraint.max is None else (constraint.max * scale) // 1
    return LinearConstraint(
        members, None if least is None else int(least), None if most is None else int(most)
    )


def _growing_pools(problem: Problem) -> tuple[int, ...]:
    """Pools with a cache other than state, in the order written."""
    growing = {cache.pool for cache in problem.caches if cache.kind != "state"}
    if None in growing:
        growing.add(problem.pools[0].name)
    return tuple([index for index, pool in enumerate(problem.pools) if pool.name in growing])


def fill_batch(problem: Problem) -> int | None:
    """The batch that the rest is filled with whole copies of."""
    name = problem.fill.batch if problem.fill is not None else None
    if name is None:
        return None
    return next((i for i, batch in enumerate(problem.batches) if batch.name == name), None)


def fill_pools(problem: Problem) -> tuple[int, ...]:
    """The pools that get the rest, in order."""
    fill = problem.fill
    if fill is None or fill.batch is not None or fill.mix is not None:
        return _growing_pools(problem)
    index = {pool.name: i for i, pool in enumerate(problem.pools)}
    return tuple([index[name] for name in fill.pools or ()])


def fill_mix(problem: Problem) -> tuple[MixRule, ...]:
    """The lengths of which as much as fits gets the rest."""
    mix = problem.fill.mix if problem.fill is not None else None
    return tuple([MixRule(each.capacity, each.history_tokens, each.share) for each in mix or ()])


def fill_shares(problem: Problem) -> tuple[tuple[int, Fraction], ...]:
    """(pool, share) of each pool that fill gives a share of the rest, in order."""
    shares = problem.fill.shares if problem.fill is not None else None
    if shares is None:
        return ()
    index = {pool.name: i for i, pool in enumerate(problem.pools)}
    return tuple((index[name], share) for name, share in shares.items())
