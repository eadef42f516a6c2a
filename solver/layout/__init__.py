"""The page layout of a hybrid model as a decision: `layout(question)`.

The package can be called itself, so that `from kvplan.solver import layout` is the function, too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from kvplan.models.layouts import LayoutAnswer, LayoutQuestion
from kvplan.models.layouts.page_layout import PageLayout

__all__ = ["layout"]


def layout(
    question: LayoutQuestion | Mapping[str, Any],
    *,
    engine: tuple[str, PageLayout] | None = None,
    freedom: bool = True,
) -> LayoutAnswer:
    """Find the page layout that takes the fewest bytes, or holds the most copies, and prove it.

    All permitted pages, widths, block tokens and ways to share groups or leave the pool are
    enumerated in batches; layers with pages of several sizes are dealt to groups by CP-SAT where
    bounds leave a doubt. The answer is replayed by the oracle before it is returned.

    Parameters
    ----------
    question : buckets of layers, the workload, and what is permitted (`LayoutQuestion.load` reads a
        file); or a mapping of the same, or of vLLM's own specs layer by layer.
    engine : name and layout of an engine's own, to compare with; default: the question's `engine`.
    freedom : also say what other permissions would give.

    Returns
    -------
    The layout as plain data, its figures in bytes, blocks and tokens beside the engine's, a proof
    with its bound, and the problem for `plan`.

    Raises
    ------
    InvalidProblem : the question contradicts itself, or permits no layout.
    CheckFailed : the oracle found a fault, which is a bug.
    """
    from kvplan.solver.layout.answered import answered
    from kvplan.solver.layout.read import asked_of_data

    if not isinstance(question, LayoutQuestion):
        question, own = asked_of_data(question)
        engine = engine or own
    return answered(question, engine=engine, freedom=freedom)


class _Callable(ModuleType):
    """A package that is called as its function is."""

    def __call__(self, *arguments: Any, **named: Any) -> LayoutAnswer:
        return layout(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
