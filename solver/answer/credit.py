"""Who answered, and what it cost: what a proof says beside its bounds."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.models.plan import Solver


class Credit(NamedTuple):
    """Who answered, and what it cost."""

    solver: Solver
    certificate: str
    deterministic_time: float = 0.0
    notes: tuple[str, ...] = ()
