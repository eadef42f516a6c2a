"""What varies whole problems: variants, and the order of the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from kvplan.models import InvalidProblem, Problem
from kvplan.models.messages import one_of, shown
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver.explore.axes import Values

OUTER = ("variant", "goals")


class Outer(NamedTuple):
    """A problem, and what makes it differ from the others by column."""

    labels: dict[str, str]
    problem: Problem


def outer_problems(problem: Problem, vary: Mapping[str, Values]) -> Iterator[Outer]:
    """Every combination of the variants and goal orders that vary; the problem itself else.

    Raises
    ------
    InvalidProblem : no such variant, a goal that the problem does not know, a value twice.
    """
    axes = [(name, _names(name, vary[name])) for name in OUTER if name in vary]
    changes: dict[str, Callable[[Problem, str], Problem]] = {
        "variant": with_variant,
        "goals": _with_goals,
    }
    for values in product(*(names for _, names in axes)):
        labels = {name: value for (name, _), value in zip(axes, values, strict=True)}
        changed = problem
        for name, value in labels.items():
            changed = changes[name](changed, value)
        yield Outer(labels, changed)


def _names(name: str, values: Values) -> tuple[str, ...]:
    given: Iterable[object] = values.split(",") if isinstance(values, str) else values
    names = tuple(str(value).strip() for value in given)
    if not names or not all(names):
        raise InvalidProblem.at(name, "names, as A,B,C", shown(values))
    if len(set(names)) < len(names):
        raise InvalidProblem.at(name, "each value once", "one twice")
    return names


def with_variant(problem: Problem, name: str, asked: str = "variant") -> Problem:
    """The problem under one of its variants; "none" is the problem itself.

    Raises
    ------
    InvalidProblem : no such variant, at the path `asked`; or it makes the problem invalid.
    """
    if name == "none":
        return problem
    variants = {variant.name: variant for variant in problem.variants}
    if name not in variants:
        raise InvalidProblem.at(asked, one_of(("none", *variants), name), shown(name))
    data = problem.model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate(apply_overrides(data, variants[name].set))


def _with_goals(problem: Problem, text: str) -> Problem:
    """Goals by their labels, "prefill > experts"; those that are not named follow as they were."""
    names = [name.strip() for name in text.split(">")]
    known = {goal.label: goal for goal in problem.goals}
    first = [known.get(name, name) for name in names]
    rest = [goal for goal in problem.goals if goal.label not in names]
    data = problem.model_dump(mode="json", exclude_unset=True)
    data["goals"] = [
        goal if isinstance(goal, str) else goal.model_dump(mode="json", exclude_unset=True)
        for goal in (*first, *rest)
    ]
    try:
        return Problem.model_validate(data)
    except InvalidProblem as error:
        raise InvalidProblem(fault._replace(path="goals") for fault in error.faults) from None
