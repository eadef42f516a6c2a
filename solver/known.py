"""Problems that were read lately, with the integers that follow from them.

A problem is immutable, so what `formulate` makes of it holds as long as it lives: planning it
again, confirming or explaining the plan starts from the same integers and from needs that are
computed already. A problem that differs from one of them in quotas alone has the same shape, as a
KV-cache manager's that is set up again: it is not read anew either.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.nested import Search
from kvplan.models import Problem
from kvplan.solver.formulate.formulation import Formulation
from kvplan.solver.shape import Shape, quotas_of

MOST_KEPT = 8


class Known(NamedTuple):
    """A problem and the shape that it has."""

    problem: Problem  # held, so that its id stays taken
    shape: Shape


# By id, the youngest last. Replaced and never changed, so that threads, forks and finalizers that
# plan need no lock; where two threads replace it at once, one problem is read again some day.
_kept: dict[int, Known] = {}


def shape_of(problem: Problem) -> Shape:
    """The shape of a problem; those of the last few problems are kept.

    A problem is known by identity, or as one of a shape that is kept.
    """
    global _kept
    kept, key = _kept, id(problem)
    known = kept.get(key)
    if known is None:
        known = Known(problem, _equal_shape(kept, problem) or Shape(problem))
    elif next(reversed(kept)) == key:
        return known.shape
    others = [entry for entry in kept.items() if entry[0] != key]
    _kept = dict([*others[1 - MOST_KEPT :], (key, known)])
    return known.shape


def _equal_shape(kept: dict[int, Known], problem: Problem) -> Shape | None:
    """A shape that is kept and that a problem has, too."""
    shapes = {id(known.shape): known.shape for known in reversed(kept.values())}
    return next((shape for shape in shapes.values() if shape.is_of(problem)), None)


def compiled(problem: Problem) -> tuple[Formulation, Search]:
    """The formulation of a problem and its search."""
    shape = shape_of(problem)
    if shape.problem is problem:
        return shape.formulation, shape.nested
    return shape.at(quotas_of(problem), problem)


def forget() -> None:
    """Drop every problem that is kept."""
    global _kept
    _kept = {}
