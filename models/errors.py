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

if TYPE_CHECKING:
    from kvplan.models.plan import RankPlan


class Fault(NamedTuple):
    """One mistake in the input: where it is, what was expected and what came."""

    path: str
    expected: str
    got: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: expected {self.expected}" if self.path else f"expected {self.expected}"
        return f"{text}, got {self.got}" if self.got else text


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
        super().__init__("\n".join(map(str, self.faults)))

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
        super().__init__("\n".join(self.reasons))


class EngineError(KvplanError):
    """An engine failed; the input is not to blame."""


class CheckFailed(EngineError):
    """A computed plan violates the problem; it was not returned."""


class Disagreement(EngineError):
    """Two engines proved different answers; the message prints both."""
