"""Lines of a log against the figures of a model on an engine, at both ends of every reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvplan.models import InvalidProblem, Problem
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.solver.cli.model.model_check import Planned, compare_lines
from kvplan.solver.cli.model.model_measured import measured
from kvplan.solver.cli.model.model_raw import more_figures

FiguresOf = Callable[[Any, Architecture, Settings, Problem], tuple[Mapping[str, str], bool]]
"""An engine's figures from a plan, or from its refusal."""


class Asked(NamedTuple):
    """A model on an engine.

    Attributes
    ----------
    settings : as typed; with lines to compare, also with the readings at either end.
    expected : lines of a log.
    """

    engine: str
    adapter: Any
    architecture: Architecture
    settings: tuple[Settings, ...]
    expected: tuple[str, ...]


def compared(
    asked: Asked, problem: Problem, figures: Mapping[str, str], figures_of: FiguresOf
) -> list[str]:
    """Hold log lines against the figures, and against those at the ends of the readings."""
    settings = asked.settings[0]
    every = [Planned(dict(figures), problem, measured(settings, problem))]
    for settings in asked.settings[1:]:
        try:
            other: Problem = asked.adapter.build(asked.architecture, settings)
        except InvalidProblem:  # the engine refuses this end
            continue
        printed, _ = figures_of(asked.adapter, asked.architecture, settings, other)
        every.append(Planned(dict(printed), other, measured(settings, other)))
    for plan, settings in zip(every, asked.settings, strict=False):
        plan.figures.update(more_figures(asked.engine, asked.architecture, settings, plan.figures))
    return compare_lines(asked.engine, every, asked.expected)
