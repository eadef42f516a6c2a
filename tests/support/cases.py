"""The shipped problems of tests/cases, by name."""

from __future__ import annotations

from pathlib import Path

from kvplan.models import Problem

FOLDER = Path(__file__).parents[1] / "cases"
CASES: dict[str, Path] = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def load(name: str, *overrides: str) -> Problem:
    """Read a shipped problem, with `path=value` overrides as of the command line's --set."""
    return Problem.load(CASES[name], overrides)


def is_weighted(name: str) -> bool:
    """Whether a goal of a shipped problem weighs several variables, which needs CP-SAT."""
    return any(goal.single is None for goal in load(name).goals)


ORDERED = [name for name in CASES if not is_weighted(name)]
"""Those that the batched search answers."""
