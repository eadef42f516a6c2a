"""Steps that arithmetic settles: a bound that needs no solver, reached by a point that obeys all.

Once everything but blocks is decided, the most a pool can hold beside the others' least is an
upper bound; where the point that reaches it keeps every constraint and every decided goal, it is
the optimum, and a solve is saved.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.kernels.bytes import least_kept
from kvplan.kernels.instance import Variable
from kvplan.kernels.nested import Search
from kvplan.kernels.shares import most_kept
from kvplan.kernels.values import Point, goal_value
from kvplan.kernels.worlds import LeastDemand
from kvplan.solver.cpsat.incumbent import obeys
from kvplan.solver.cpsat.program import Program
from kvplan.solver.cpsat.worlds import world_at


def raise_blocks(nested: Search, program: Program, decided: list[Fraction], pool: int) -> bool:
    """Settle a pool at the most that fits, if that point obeys; the model is told."""
    point = program.point()
    world = world_at(nested, point, len(decided))
    corner = next(nested.corners(world))
    top = nested.blocks_in_rest(world, corner, pool)
    candidate = _at(nested, point, corner._replace(usable=_put(corner.usable, pool, top)))
    return _accept(nested, program, decided, candidate, Variable("blocks", pool))


def raise_tail(nested: Search, program: Program, decided: list[Fraction]) -> list[Fraction]:
    """Settle all pools that are still to be filled, if the point that reaches every bound obeys.

    Each pool is at the most that fits beside those before it and the others' least.
    """
    instance = nested.instance
    goals = [goal.single for goal in instance.goals[len(decided) :]]
    pools = [goal.position for goal in goals if goal is not None and goal.kind == "blocks"]
    if len(pools) < len(goals):
        return []
    point = program.point()
    world = world_at(nested, point, len(decided))
    corner = nested.blocks_in_order(world, next(nested.corners(world)), pools)
    candidate = _at(nested, point, corner)
    if not _obeys(nested, program, decided, candidate):
        return []
    program.suggest(candidate)
    for pool in pools:
        form = program.variables.usable[pool]
        program.model.bound(form, candidate.usable[pool], candidate.usable[pool])
    return [Fraction(candidate.usable[pool]) for pool in pools]


def lower_blocks(nested: Search, program: Program, decided: list[Fraction], pool: int) -> bool:
    """Settle a pool at its floor, the others as in the last solution, if that point obeys."""
    point = program.point()
    corner = next(nested.corners(world_at(nested, point, len(decided))))
    usable = _put(point.usable, pool, corner.usable[pool])
    candidate = point._replace(usable=usable)
    return _accept(nested, program, decided, candidate, Variable("blocks", pool))


def keep_experts(nested: Search, program: Program, decided: list[Fraction]) -> bool:
    """Settle the slots that stay during prefill at the most beside every pool's least."""
    point = program.point()
    world = world_at(nested, point, len(decided))
    corner = next(nested.corners(world))
    candidate = _at(nested, point, corner)._replace(kept=most_kept(nested, world, corner))
    return _accept(nested, program, decided, candidate, None)


def _at(nested: Search, point: Point, corner: LeastDemand) -> Point:
    """The point with a corner's blocks, and as few experts kept in prefill as may be."""
    experts = nested.instance.experts
    kept = least_kept(point.experts, experts) if experts else 0
    return point._replace(usable=corner.usable, kept=kept)


def _put(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _accept(
    nested: Search,
    program: Program,
    decided: list[Fraction],
    point: Point,
    variable: Variable | None,
) -> bool:
    """Fix one variable at a point that obeys everything, and make the point the hint."""
    if not _obeys(nested, program, decided, point):
        return False
    program.suggest(point)
    form = program.variables.kept
    if variable is not None:
        form = program.variables.usable[variable.position]
    value = program.model.value(form)
    program.model.bound(form, value, value)
    return True


def _obeys(nested: Search, program: Program, decided: list[Fraction], point: Point) -> bool:
    """Domains, every rule of the problem, and the goals decided so far."""
    instance, demand, model = nested.instance, nested.demand, program.model
    forms = (*program.variables.usable, program.variables.kept)
    values = (*point.usable, point.kept)
    within = all(model.low(f) <= v <= model.high(f) for f, v in zip(forms, values, strict=True))
    if not within or not obeys(instance, demand, point):
        return False
    reached = (goal_value(instance, demand, point, goal) for goal in instance.goals)
    return all(now == value for now, value in zip(reached, decided, strict=False))
