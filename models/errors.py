"""The one exception tree.

KvplanError
├── InvalidProblem      the question is malformed: one Fault per mistake            exit code 2
├── Infeasible          the question is fine and has no answer: what is short       exit code 1
└── EngineError         kvplan itself failed
    ├── CheckFailed     a plan broke a constraint when it was recomputed
    └── Disagreement    two engines proved different answers
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvplan.models.messages import cut, one_line

if TYPE_CHECKING:
    from kvplan.models.plan import RankPlan


LONGEST_LINE = 390  # characters of a fault
LONGEST_PATH = 150


class Fault(NamedTuple):
    """One mistake in the input: where it is, what was expected and what came."""

    path: str
    expected: str
    got: str = ""

    def __str__(self) -> str:
        path = self.path if len(self.path) <= LONGEST_PATH else f"...{self.path[-LONGEST_PATH:]}"
        where = f"{path}: " if path else ""
        came = f", got {self.got}" if self.got else ""
        return cut(one_line(f"{where}expected {self.expected}{came}"), LONGEST_LINE)


class Shortfall(NamedTuple):
    """Bytes that a rank lacks in a phase with everything elastic at its floor."""

    rank: str
    phase: str
    bytes: int


class KvplanError(Exception):
    """Base of every error that kvplan raises on purpose."""


class InvalidProblem(KvplanError):
    """The input is malformed; `faults` lists every mistake that was found."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))

    @classmethod
    def at(cls, path: str, expected: str, got: str = "") -> InvalidProblem:
        """Build the error for a single fault."""
        return cls([Fault(path, expected, got)])


class Infeasible(KvplanError):
    """No plan exists.

    Attributes
    ----------
    reasons : one line for each thing that is short, with rank, phase and bytes.
    shortfall : bytes short by rank and phase, everything elastic at its floor.
    ranks : the budget table at those floors, one entry a rank.
    """

    def __init__(
        self,
        reasons: Sequence[str],
        shortfall: Sequence[Shortfall] = (),
        ranks: Sequence[RankPlan] = (),
    ) -> None:
        self.reasons = tuple(reasons)
        self.shortfall = tuple(shortfall)
        self.ranks = tuple(ranks)
        super().__init__(self.reasons, self.shortfall, self.ranks)

    def __str__(self) -> str:
        return "\n".join(self.reasons)


class EngineError(KvplanError):
    """An engine failed; the input is not to blame."""


class CheckFailed(EngineError):
    """A computed plan violates the problem; it was not returned."""


class Disagreement(EngineError):
    """Two engines proved different answers; the message prints both."""
