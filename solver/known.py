"""Problems that were read lately, with the integers that follow from them.

A problem is immutable, so what `formulate` makes of it holds as long as it lives: planning it
again, confirming or explaining the plan starts from the same integers and from needs that are
computed already. A problem that differs from one of them in quotas alone has the same shape, as a
KV-cache manager's that is set up again: it is not read anew either.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from kvplan.kernels.nested import Nested
from kvplan.models import Problem
from kvplan.solver.formulation import Formulation
from kvplan.solver.shape import Shape, quotas_of

MOST_KEPT = 8


class Known(NamedTuple):
    """A problem and the shape that it has."""

    problem: Problem  # held, so that its id stays taken
    shape: Shape


_kept: OrderedDict[int, Known] = OrderedDict()
_lock = Lock()


def shape_of(problem: Problem) -> Shape:
    """The shape of a problem; those of the last few problems are kept.

    A problem is known by identity, or as one of a shape that is kept.
    """
    key = id(problem)
    with _lock:
        known = _kept.get(key)
        if known is not None:
            _kept.move_to_end(key)
            return known.shape
        shapes = {id(known.shape): known.shape for known in reversed(_kept.values())}
    shape = next((shape for shape in shapes.values() if shape.is_of(problem)), None)
    if shape is None:
        shape = Shape(problem)
    with _lock:
        _kept[key] = Known(problem, shape)
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return shape


def compiled(problem: Problem) -> tuple[Formulation, Nested]:
    """The formulation of a problem and its search."""
    shape = shape_of(problem)
    if shape.problem is problem:
        return shape.formulation, shape.nested
    return shape.at(quotas_of(problem), problem)


def forget() -> None:
    """Drop every problem that is kept."""
    with _lock:
        _kept.clear()
