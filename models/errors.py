"""The one exception tree.

KvplanError
├── InvalidProblem      the question is malformed: one Fault per mistake            exit code 2
├── Infeasible          the question is fine and has no answer: what is short       exit code 1
├── Undecided           no plan was found and none was ruled out                    exit code 1
├── AgreementFailed     ranks have no common plan: which of them, and why
└── SolverError         kvplan itself failed
    ├── CheckFailed     a plan broke a constraint when it was recomputed
    └── Disagreement    two solvers proved different answers
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Claim(NamedTuple):
    """A demand that takes part in a conflict, in the names of the problem file."""

    kind: str  # request, quota, consumer, chunk floor, expert floor, staging, pool minimum ...
    path: str  # of the field, as --set has it
    text: str


class Remedy(NamedTuple):
    """A single change that makes the problem feasible, verified by solving.

    `--set "{change}={to}"` applies it (a variant, change "variants.<name>", is applied by its own
    list of overrides). No smaller change of the same field works.
    """

    change: str
    from_: int | str | None
    to: int | str
    text: str

    def as_dict(self) -> dict[str, Any]:
        """The public form: change, from, to, text."""
        return {"change": self.change, "from": self.from_, "to": self.to, "text": self.text}


class RuledOut(NamedTuple):
    """A change that cannot help, however large, and why."""

    change: str
    reason: str


class Advice(NamedTuple):
    """What an explanation of a refusal found."""

    conflict: tuple[Claim, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()


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
    conflict : a minimal set of demands that cannot hold together: without any one they can.
    remedies : single changes that make it feasible, those that change least first.
    ruled_out : changes that cannot help, with the reason.

    The last three are computed on first use, so that a refusal is quick.
    """

    def __init__(
        self,
        reasons: Sequence[str],
        shortfall: Sequence[Shortfall] = (),
        ranks: Sequence[RankPlan] = (),
        advice: Advice = Advice(),  # noqa: B008 - immutable
    ) -> None:
        self.reasons = tuple(reasons)
        self.shortfall = tuple(shortfall)
        self.ranks = tuple(ranks)
        self._advice: Advice | Callable[[], Advice] = advice
        super().__init__(self.reasons, self.shortfall, self.ranks)

    def advised_by(self, advise: Callable[[], Advice]) -> None:
        """Name what works the advice out when it is first read."""
        self._advice = advise

    @property
    def advice(self) -> Advice:
        """Conflict, remedies and what was ruled out; computed once."""
        if not isinstance(self._advice, Advice):
            self._advice = self._advice()
        return self._advice

    @property
    def conflict(self) -> tuple[Claim, ...]:
        """Demands that cannot hold together, none of which is superfluous."""
        return self.advice.conflict

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Verified single changes."""
        return self.advice.remedies

    @property
    def ruled_out(self) -> tuple[RuledOut, ...]:
        """Changes that cannot help."""
        return self.advice.ruled_out

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the advice computed."""
        return type(self), (self.reasons, self.shortfall, self.ranks, self.advice)

    def __str__(self) -> str:
        return "\n".join(self.reasons)

    def __repr__(self) -> str:
        """One line for a log: what is short by most bytes first."""
        if not self.shortfall:
            return f"Infeasible({self.reasons[0] if self.reasons else ''!r})"
        worst = max(self.shortfall, key=lambda short: short.bytes)
        more = f", and {len(self.shortfall) - 1} more" if len(self.shortfall) > 1 else ""
        return f"Infeasible('{worst.rank} is short by {worst.bytes:_} B in {worst.phase}{more}')"


class Undecided(KvplanError):
    """No plan was found, and it is not proven that there is none.

    The search alone may end so under linear constraints, and CP-SAT at its deadline.
    """


class AgreementFailed(KvplanError):
    """Ranks have no common plan; every rank that can be reached raises this same text.

    Attributes
    ----------
    reasons : one line for each rank that is to blame.
    ranks : their numbers, where the communicator knows them.
    """

    def __init__(self, reasons: Sequence[str], ranks: Sequence[int] = ()) -> None:
        self.reasons = tuple(reasons)
        self.ranks = tuple(ranks)
        super().__init__(self.reasons, self.ranks)

    def __str__(self) -> str:
        return "\n".join(self.reasons)


class SolverError(KvplanError):
    """A solver failed; the input is not to blame."""


class CheckFailed(SolverError):
    """A computed plan violates the problem; it was not returned."""


class Disagreement(SolverError):
    """Two solvers proved different answers; the message prints both."""
