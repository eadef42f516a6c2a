"""What `kvplan model` was told: the engine, its flags and readings, and what is laid over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.models import InvalidProblem
from kvplan.models.engines.command_line.launch_line import read_line
from kvplan.models.engines.command_line.typed import Budget, typed_settings
from kvplan.models.engines.registry import Settings
from kvplan.solver.cli.model.readings import End, arguments_at, gib_at, reading_at

ENDS: tuple[End, End] = ("low", "high")


def settings_at_ends(
    adapter: Any, arguments: Sequence[str], budget: Budget
) -> tuple[Settings, Settings]:
    """Settings with every printed reading at the low and at the high end of what it stands for."""
    low, high = (
        typed_settings(adapter, arguments_at(arguments, end), _at(budget, end)) for end in ENDS
    )
    return low, high


def _at(budget: Budget, end: End) -> Budget:
    """The card with printed readings at an end of what they can stand for."""
    total = reading_at("--total", budget.total, end) or budget.total
    return Budget(budget.gpu, total, gib_at(budget.weights_gib, end))


def engine_of(named: str | None, arguments: Sequence[str], logged: str | None = None) -> str:
    """The engine of a log, else that named by --engine, else of the pasted line, else vllm.

    Raises
    ------
    InvalidProblem : two of them differ.
    """
    started = read_line(arguments).engine
    if logged and named and named != logged:
        raise InvalidProblem.at("--engine", f"{logged}, whose log --from-log reads", named)
    known = logged or named
    if known and started and known != started:
        flag = "--from-log" if logged else "--engine"
        raise InvalidProblem.at(flag, f"{started}, whose command line follows", known)
    return known or started or "vllm"
