"""CP-SAT on a formulation: bracket in, proven answer out."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvplan.kernels.instance import Instance
from kvplan.kernels.nested import Search
from kvplan.kernels.ordered import complete
from kvplan.kernels.values import Answer, Point, goal_value
from kvplan.solver.cpsat.box import box_of, open_box
from kvplan.solver.cpsat.fill import fill_coupled
from kvplan.solver.cpsat.incumbent import obeys
from kvplan.solver.cpsat.model import ContradictionError
from kvplan.solver.cpsat.program import Program, build_program
from kvplan.solver.cpsat.shortcut import raise_blocks, raise_tail
from kvplan.solver.cpsat.solve import Driver, Verdict, scaled
from kvplan.solver.cpsat.worlds import world_at


class Solved(NamedTuple):
    """An answer (None: proven infeasible) and the deterministic time it took."""

    answer: Answer | None
    deterministic_time: float


class UndecidedError(Exception):
    """The deadline ended before CP-SAT found any point."""


def solve_program(
    nested: Search,
    bracket: Answer,
    *,
    margin: bool,
    use_bounds: bool,
    deadline: float | None,
) -> Solved:
    """Solve all goals with CP-SAT from the search's point.

    Parameters
    ----------
    bracket : the search's answer; its point is the hint and need not obey linear constraints.
    margin : leave room beyond the solo maxima, so that CP-SAT confirms them by itself.
    use_bounds : add the bracket's upper bounds as rows (`goal <= bound`).

    Raises
    ------
    UndecidedError : no point was found in time.
    TooLargeError : the model would leave CP-SAT's range.
    """
    try:
        box = box_of(nested, bracket, margin=margin)
        program = build_program(nested.instance, nested.demand, box, bracket.point)
    except ContradictionError:
        return Solved(None, 0.0)
    driver = Driver(program, deadline)
    # Beside bounds that are taken from the search, its point may be taken too where it obeys.
    driver.has_point = use_bounds and obeys(nested.instance, nested.demand, bracket.point)
    limits = bracket.bounds if use_bounds else (None,) * len(bracket.bounds)
    answer = _decide(nested, program, driver, limits)
    return Solved(answer, driver.deterministic_time)


def least_point(instance: Instance) -> Point:
    """Every decision at its smallest: a hint that needs no search, feasible or not."""
    experts = instance.experts.least if instance.experts else 0
    return Point(
        capacities=tuple(f.capacity if f.is_count else f.least for f in instance.fitted),
        counts=tuple(f.least if f.is_count else f.requests for f in instance.fitted),
        chunk=0,
        options=tuple(0 for _ in instance.choices),
        experts=experts,
        kept=experts,
        usable=tuple(pool.least for pool in instance.pools),
    )


def proves_infeasible(nested: Search, deadline: float | None) -> bool | None:
    """Whether CP-SAT, on domains that no search took part in, finds no point; None: undecided."""
    instance = nested.instance
    try:
        program = build_program(instance, nested.demand, open_box(instance), least_point(instance))
    except ContradictionError:
        return True
    verdict = Driver(program, deadline).satisfy()
    return None if verdict is Verdict.UNKNOWN else verdict is Verdict.INFEASIBLE


def _decide(
    nested: Search, program: Program, driver: Driver, limits: tuple[Fraction | int | None, ...]
) -> Answer | None:
    decided: list[Fraction] = []
    if not any(form.terms for form, _ in program.goals) and _is_empty(driver.satisfy()):
        return None
    for (form, scale), limit in zip(program.goals, limits, strict=False):
        if len(decided) >= nested.instance.fill_from:
            decided += raise_tail(nested, program, decided)
        if len(decided) == len(program.goals):
            break
        if _by_arithmetic(nested, program, decided):
            decided.append(Fraction(program.model.value(form), scale))
            continue
        verdict = driver.maximize(form, scaled(limit, scale))
        if verdict is Verdict.UNKNOWN and driver.has_solution:
            return _feasible(nested, program, [*decided])
        if _is_empty(verdict):
            return None
        if verdict is Verdict.FEASIBLE:
            bound = None if driver.bound is None else Fraction(driver.bound, scale)
            return _feasible(nested, program, [*decided, bound])
        decided.append(Fraction(program.model.value(form), scale))
    if not nested.instance.blocks_are_coupled:
        return complete(nested, world_at(nested, program.point(), len(decided)), decided)
    exact = fill_coupled(nested, program, driver, decided)
    return _valued(nested, program.point(), decided, exact=exact)


def _by_arithmetic(nested: Search, program: Program, decided: list[Fraction]) -> bool:
    """Whether the next goal is blocks of a pool that arithmetic settles."""
    instance = nested.instance
    if len(decided) < instance.fill_from:
        return False
    variable = instance.goals[len(decided)].single
    if variable is None or variable.kind != "blocks":
        return False
    return raise_blocks(nested, program, decided, variable.position)


def _is_empty(verdict: Verdict) -> bool:
    if verdict is Verdict.UNKNOWN:
        raise UndecidedError
    return verdict is Verdict.INFEASIBLE


def _feasible(nested: Search, program: Program, bounds: list[Fraction | None]) -> Answer:
    """The best solution so far, filled up where fill is arithmetic; not proven."""
    point = program.point()
    if not nested.instance.blocks_are_coupled:
        point = complete(nested, world_at(nested, point, len(bounds)), bounds).point
    return _valued(nested, point, bounds, exact=False)


def _valued(
    nested: Search, point: Point, bounds: list[Fraction] | list[Fraction | None], *, exact: bool
) -> Answer:
    goals = nested.instance.goals
    values = tuple(goal_value(nested.instance, nested.demand, point, goal) for goal in goals)
    padded = (*bounds, *(None for _ in goals[len(bounds) :]))
    return Answer(point, values, padded, exact)
