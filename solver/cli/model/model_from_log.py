"""kvplan model --from-log: the start of a log as a problem, with the model's config or without."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any

from kvplan.models import InvalidProblem, Problem
from kvplan.solver.logs.verdict import Start


def last_start(log: str, *, settings_suffice: bool = False) -> Start:
    """The last start that a log holds; `settings_suffice` where a config says the rest.

    Raises
    ------
    InvalidProblem : the log cannot be read, or is of no known engine.
    """
    from kvplan.solver.logs.reading.scan import scan

    return scan([log], settings_suffice=settings_suffice)[-1]


def described_problem(start: Start) -> Problem:
    """The problem of a start, as far as its log says it."""
    from kvplan.solver.logs.described import described

    return Problem.model_validate(described(start))


def print_described(start: Start) -> int:
    """Print the problem, below what the log says of it."""
    from kvplan.solver.cli.model.model_text import comment_text
    from kvplan.solver.report.problem_text import problem_text

    problem = described_problem(start)
    count = None if start.agreed is None else f"{start.agreed:_}"
    lines = {"engine": start.engine, "count": count or "none printed"}
    lines |= {f"failed (line {one.line})": one.why for one in start.failures}
    lines |= {f"wrong ({one.figure})": one.text for one in start.wrong}
    sys.stdout.write(comment_text("what the log says", lines))
    sys.stdout.write(problem_text(problem))
    return 0


def both_arguments(start: Start, adapter: Any, typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags as the log shows them, before those that were typed (in any spelling), which win.

    Returns
    -------
    The arguments with rooms cut to what gives the printed count; the same with rooms as printed.
    """
    from kvplan.models.engines.command_line.launch_line import Dialect
    from kvplan.models.engines.command_line.settings import read_settings
    from kvplan.solver.logs.flags import flags_of

    dialect = getattr(adapter, "DIALECT", Dialect())
    given = read_settings(adapter.FLAGS, typed, {}, dialect).given
    open_flags = {flag.name for flag in adapter.FLAGS if flag.key not in given}
    switches = {flag.name for flag in adapter.FLAGS if flag.kind == "switch"}
    shown = [
        _switch(name, value) if name in switches else (name, value)
        for name, value in flags_of(start)
        if name in open_flags
    ]
    shown += [(flag, "") for flag in _unbounded(adapter, {name for name, _ in shown})]
    exact = _with_exact_rooms(start, shown)
    return _before(exact, typed), _before(shown, typed)


_LENGTHS = {
    "--max-model-len": "--allow-long-max-model-len",
    "--context-length": "--allow-longer-context",
    "--max_seq_len": "--allow_long_max_model_len",
}
"""Flags of a length, and those that allow one above the model's own."""


def _unbounded(adapter: Any, shown: Collection[str]) -> list[str]:
    """What allows a length of the log, whatever the config says: the engine did start with it."""
    names = {flag.name for flag in adapter.FLAGS}
    return [allowed for name, allowed in _LENGTHS.items() if name in shown and allowed in names]


def _switch(name: str, value: str) -> tuple[str, str]:
    return (name if value == "true" else f"--no-{name[2:]}"), ""


def _before(shown: Sequence[tuple[str, str]], typed: Sequence[str]) -> list[str]:
    return [*(part for pair in shown for part in pair if part), *typed]


def _with_exact_rooms(start: Start, shown: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Printed rooms replaced by those of the described problem, where there is one."""
    printed = [value for name, value in shown if name == "--available" and value.endswith("GiB")]
    try:
        rooms = [str(rank.quota_bytes) for rank in described_problem(start).ranks]
    except InvalidProblem:
        return shown
    if len(rooms) != len(printed):
        return shown
    return [pair for pair in shown if pair[0] != "--available"] + [
        ("--available", room) for room in rooms
    ]


def adapter_name(start: Start) -> str:
    """Name of the adapter of a log's engine.

    Raises
    ------
    InvalidProblem : an engine without one.
    """
    from kvplan.solver.logs.flags import ADAPTERS

    if start.engine not in ADAPTERS:
        expected = f"a log of {', '.join(ADAPTERS)} with a config, or no config"
        raise InvalidProblem.at(start.source, expected, start.engine)
    return ADAPTERS[start.engine]
