"""Arguments and options that several commands share, and how they are read."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from kvplan.models.plan import Solver

SOLVERS: tuple[Solver, ...] = ("cp-sat", "auto", "bisect")

ProblemFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Problem in YAML or JSON; - reads standard input.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change one field before solving, such as ranks.0.quota=10GiB or "
        "batches.one.requests.long.capacity=4096 (* is every item). Repeatable.",
    ),
]


def solver_of(text: str) -> Solver:
    """Read --solver.

    Raises
    ------
    InvalidProblem : not one of the solvers.
    """
    if text not in SOLVERS:
        from kvplan.models import InvalidProblem

        raise InvalidProblem.at("--solver", "cp-sat, auto or bisect", repr(text))
    return text


def device_of(text: str | None, solver: Solver) -> str | None:
    """Read --device; torch is imported only where there is one.

    Raises
    ------
    InvalidProblem : another solver than bisect, no torch, or no such device.
    """
    if text is None:
        return None
    if solver != "bisect":
        from kvplan.models import InvalidProblem

        raise InvalidProblem.at("--device", "--solver bisect beside it", f"--solver {solver}")
    from kvplan.solver.solve.on_device import check_device

    check_device(text, "--device")
    return text


def deadline_of(text: str | None) -> float | None:
    """Read --deadline, in seconds.

    Raises
    ------
    InvalidProblem : not a number, negative, or not finite.
    """
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        from kvplan.models import InvalidProblem

        raise InvalidProblem.at("--deadline", "seconds of at least 0", repr(text))
    return seconds
