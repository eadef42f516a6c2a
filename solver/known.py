"""Problems that were read lately, with the integers that follow from them.

A problem is immutable, so what `formulate` makes of it holds as long as it lives: planning it
again, confirming or explaining the plan starts from the same integers and from needs that are
computed already.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from kvplan.kernels.nested import Nested
from kvplan.models import Problem
from kvplan.solver.formulation import Formulation, formulate

MOST_KEPT = 8
_kept: OrderedDict[int, tuple[Formulation, Nested]] = OrderedDict()
_lock = Lock()


def compiled(problem: Problem) -> tuple[Formulation, Nested]:
    """The formulation of a problem and its search; those of the last few problems are kept.

    A problem is known by identity: a formulation holds its problem, so the id stays taken.
    """
    key = id(problem)
    with _lock:
        known = _kept.get(key)
        if known is not None:
            _kept.move_to_end(key)
            return known
    formulation = formulate(problem)
    made = formulation, Nested(formulation.terms)
    with _lock:
        _kept[key] = made
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return made


def forget() -> None:
    """Drop every problem that is kept."""
    with _lock:
        _kept.clear()
