"""The goals of a frontier, and a problem that must reach a value of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from kvplan.models import InvalidProblem, Problem
from kvplan.models.demands import Request
from kvplan.models.elastic import Experts
from kvplan.models.goals import Constraint, Goal
from kvplan.models.messages import Misfit, one_of, shown
from kvplan.models.pools import Pool
from kvplan.models.problem import request_name
from kvplan.models.reading.paths import request_path
from kvplan.models.reading.variables import known_variables, relaxable
from kvplan.models.units import parse_integer
from kvplan.solver.explain.chunk_floor import with_chunks

Part = TypeVar("Part", Experts, Pool, Request)

_STEP = re.compile(r"(.+):([^:]+)")
FEWEST, MOST = 2, 3


class Axis(NamedTuple):
    """A variable, and how far apart two values are told apart."""

    variable: str
    step: int = 1

    def rounded(self, value: int) -> int:
        """The multiple of the step at or below a value."""
        return value // self.step * self.step


def read_axes(problem: Problem, goals: Sequence[str]) -> tuple[Axis, ...]:
    """Read two or three goals.

    Raises
    ------
    InvalidProblem : too few or too many, an unknown variable, one twice, a step below 1.
    """
    listed = None if isinstance(goals, str) else [str(goal).strip() for goal in goals]
    if listed is None or not FEWEST <= len(listed) <= MOST:
        got = shown(goals) if listed is None else str(len(listed))
        raise InvalidProblem.at("--goals", "two or three goals, as capacity:long,prefill", got)
    axes = tuple(_axis(problem, text) for text in listed)
    names = [axis.variable for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidProblem.at("--goals", "each goal once", f"{shown(name)} twice")
    return axes


def _axis(problem: Problem, text: str) -> Axis:
    known = {
        name: why for name, why in known_variables(problem).items() if "=" not in name or not why
    }
    found = _STEP.fullmatch(text)
    if text in known or found is None or found[1] not in known:
        return Axis(_variable(problem, known, text))
    try:
        step = parse_integer(int(found[2]) if found[2].isdecimal() else found[2], least=1)
    except Misfit as error:
        raise InvalidProblem.at("--goals", f"a step: {error.expected}", shown(text)) from None
    return Axis(_variable(problem, known, found[1]), step)


def _variable(problem: Problem, known: dict[str, str], name: str) -> str:
    free = [each for each, why in known.items() if not why]
    if name not in known or (name.startswith("choice:") and "=" in name):
        raise InvalidProblem.at("--goals", f"a variable: {one_of(free, name)}", shown(name))
    if known[name]:
        raise InvalidProblem.at("--goals", known[name] + _remedy(problem, name), shown(name))
    return name


def _remedy(problem: Problem, name: str) -> str:
    """What to add where a request is not fitted, so that it may vary; nothing elsewhere."""
    kind, _, request = name.partition(":")
    place = next(
        (
            request_path(problem, b, r)
            for b, batch in enumerate(problem.batches)
            for r in range(len(batch.requests))
            if request_name(batch, r) == request
        ),
        None,
    )
    return "" if place is None else f" (--set {place}.fit={kind})"


def ordered_by(problem: Problem, axes: Sequence[Axis]) -> Problem:
    """The problem with these goals first, in this order."""
    names = [axis.variable for axis in axes]
    first = tuple(Goal(maximize={name: Fraction(1)}) for name in names)
    others = tuple(goal for goal in problem.goals if goal.single not in names)
    return problem.model_copy(update={"goals": (*first, *others)})


def reaching_all(problem: Problem, least: Iterable[tuple[Axis, int]]) -> Problem | None:
    """The problem with a floor under each of several goals; None where one is never so large."""
    changed: Problem | None = problem
    for axis, value in least:
        changed = None if changed is None else reaching(changed, axis.variable, value)
    return changed


def reaching(problem: Problem, variable: str, least: int) -> Problem | None:
    """The problem in which a variable is at least so large; None where it never is.

    A floor that the format has stays a floor, so that the search answers; options and copies have
    none, so they become linear constraints.
    """
    kind, _, name = variable.partition(":")
    if kind == "prefill":
        return _chunks_from(problem, least)
    if kind == "experts":
        return _slots_from(problem, least)
    if kind == "blocks":
        return _pool_from(problem, relaxable(problem)[variable][0], least)
    if kind in ("capacity", "count"):
        return _request_from(problem, kind, name, least)
    if kind == "choice":
        return _options_from(problem, name, least)
    return _constrained(problem, {variable: Fraction(1)}, least)


def _chunks_from(problem: Problem, least: int) -> Problem | None:
    assert problem.prefill is not None
    kept = [chunk for chunk in problem.prefill.candidates if chunk >= least]
    if not kept:
        return None
    return problem.model_copy(update={"prefill": with_chunks(problem.prefill, kept)})


def _slots_from(problem: Problem, least: int) -> Problem | None:
    assert problem.experts is not None
    raised = _raised(problem.experts, "min_slots", least)
    return None if raised is None else problem.model_copy(update={"experts": raised})


def _pool_from(problem: Problem, index: int, least: int) -> Problem | None:
    raised = _raised(problem.pools[index], "min_blocks", least)
    if raised is None:
        return None
    pools = (*problem.pools[:index], raised, *problem.pools[index + 1 :])
    return problem.model_copy(update={"pools": pools})


def _request_from(problem: Problem, kind: str, name: str, least: int) -> Problem | None:
    batch, request = problem.fitted(kind)[name]
    raised = _raised(request, f"min_{kind}", least)
    if raised is None:
        return None
    requests = tuple(raised if each is request else each for each in batch.requests)
    changed = batch.model_copy(update={"requests": requests})
    batches = tuple(changed if each is batch else each for each in problem.batches)
    return problem.model_copy(update={"batches": batches})


def _raised(part: Part, field: str, least: int) -> Part | None:
    """A section with a higher floor; None where its own rules put that above the most."""
    if least <= (getattr(part, field) or 0):
        return part
    given = {name: getattr(part, name) for name in part.model_fields_set}
    try:
        return type(part).model_validate({**given, field: least})
    except ValidationError:
        return None


def _options_from(problem: Problem, name: str, least: int) -> Problem | None:
    """The value of an option is how many stand behind it, counted below zero: 0 is the best."""
    choice = next(choice for choice in problem.choices if choice.name == name)
    kept = choice.options[: 1 - least]
    if least > 0:
        return None
    return _constrained(problem, {f"choice:{name}={o.name}": Fraction(1) for o in kept}, 1)


def _constrained(problem: Problem, terms: dict[str, Fraction], least: int) -> Problem:
    constraint = Constraint(terms=terms, min=least)
    return problem.model_copy(update={"constraints": (*problem.constraints, constraint)})
