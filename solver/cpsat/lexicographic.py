"""CP-SAT on an instance: a hint in, the best point in the order of the goals out."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Answer
from kvplan.solver.cpsat.coupled import fill_coupled, mix_form
from kvplan.solver.cpsat.driver import Driver, Verdict
from kvplan.solver.cpsat.fill import filled
from kvplan.solver.cpsat.model.integer_model import ContradictionError
from kvplan.solver.cpsat.program.goal_forms import goal_values
from kvplan.solver.cpsat.program.program import Program, build_program

Bounds = tuple[Fraction | int | None, ...]


class Solved(NamedTuple):
    """What CP-SAT says of an instance.

    `answer` is None where nothing fits (INFEASIBLE) and where no point was found (UNKNOWN).
    """

    verdict: Verdict
    answer: Answer | None
    deterministic_time: float


def solve_program(
    instance: Instance,
    incumbent: Answer | None = None,
    *,
    use_bounds: bool = False,
    deadline: float | None = None,
) -> Solved:
    """Solve all goals with CP-SAT.

    Parameters
    ----------
    incumbent : a point as hint, which need not obey linear constraints, and bounds of its goals.
    use_bounds : take the incumbent's bounds as proven (`goal <= bound`), and its point where it
        obeys every row: what reaches the bound is then optimal. Without it CP-SAT is
        independent of it.
    deadline : wall seconds; None: a fixed amount of deterministic time, about two seconds.

    Raises
    ------
    TooLargeError : the model would leave CP-SAT's range.
    """
    try:
        program = build_program(instance, None if incumbent is None else incumbent.point)
    except ContradictionError:
        return Solved(Verdict.INFEASIBLE, None, 0.0)
    driver = Driver(program.model, deadline, trusts_hint=use_bounds)
    start = incumbent if program.model.hint_holds else None
    limits: Bounds = incumbent.bounds if incumbent is not None and use_bounds else ()
    verdict, answer = _decide(program, driver, limits)
    if answer is not None and not answer.exact and start is not None:
        answer = _better(answer, start)
    return Solved(verdict, answer, driver.deterministic_time)


def refutes(instance: Instance, deadline: float | None = None) -> bool | None:
    """Whether CP-SAT finds that no point exists; None: undecided.

    Raises
    ------
    TooLargeError : the model would leave CP-SAT's range.
    """
    try:
        program = build_program(instance)
    except ContradictionError:
        return True
    verdict = Driver(program.model, deadline).satisfy()
    return None if verdict is Verdict.UNKNOWN else verdict is Verdict.INFEASIBLE


def _decide(program: Program, driver: Driver, limits: Bounds) -> tuple[Verdict, Answer | None]:
    """Goal after goal, then fill; after an unproven goal, later ones are only improved."""
    bounds: list[Fraction | None] = []
    exact = True
    mix = _place_of_mix(program.instance, len(program.objectives))
    if not any(form.terms for form, _ in program.objectives[:mix]):
        verdict = driver.satisfy()
        if verdict in (Verdict.INFEASIBLE, Verdict.UNKNOWN):
            return verdict, None
    for number, (form, scale) in enumerate(program.objectives):
        if number == mix:
            form, scale = mix_form(program)
        if not form.terms:
            bounds.append(Fraction(form.constant, scale) if exact else None)
            continue
        limit = limits[number] if exact and number < len(limits) else None
        verdict = driver.maximize(form, None if limit is None else int(limit * scale // 1))
        if verdict is Verdict.INFEASIBLE or not driver.has_solution:
            return verdict, None
        if verdict is Verdict.OPTIMAL:
            reached: int | None = program.model.value(form)
        else:
            reached = driver.bound
        bounds.append(Fraction(reached, scale) if exact and reached is not None else None)
        exact = exact and verdict is Verdict.OPTIMAL
    return _filled(program, driver, bounds, exact=exact)


def _place_of_mix(instance: Instance, end: int) -> int:
    """Which goal is the scale of the fill mix, whose form follows from the chunk; else the end."""
    singles = [goal.single for goal in instance.objectives[:end]]
    return next((at for at, one in enumerate(singles) if one and one.kind == "scale"), end)


def _filled(
    program: Program, driver: Driver, bounds: list[Fraction | None], *, exact: bool
) -> tuple[Verdict, Answer]:
    """Fill by arithmetic, or by CP-SAT where blocks are tied to something else."""
    instance = program.instance
    if instance.blocks_are_coupled:
        exact = fill_coupled(program, driver) and exact
        point, raws = program.point(), program.raw_blocks()
    else:
        raws = program.raw_blocks()
        point = filled(instance, program.point(), raws)
    values = goal_values(instance, point, raws)
    padded = (*bounds, *(values[len(bounds) :] if exact else [None] * (len(values) - len(bounds))))
    answer = Answer(point, values, padded, exact)
    return (Verdict.OPTIMAL if exact else Verdict.FEASIBLE), answer


def _better(found: Answer, start: Answer) -> Answer:
    """The unproven answer, or the search's initial point where that is worth more."""
    if tuple(map(Fraction, start.values)) <= tuple(map(Fraction, found.values)):
        return found
    return found._replace(point=start.point, values=start.values)
