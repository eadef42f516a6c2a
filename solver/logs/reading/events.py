"""What single lines of a log say, and a reader that keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.prefix import source_of
from kvplan.solver.logs.reading.record import CORE, Failure

MOST_EVENTS = 2**16
_BUILT = frozenset(("tokens", "blocks", "available", "pool", "pool of pool", "size"))
_LOADED = frozenset(("loaded", "free after", "weights"))


@dataclass(frozen=True)
class Event:
    """What one line says.

    Attributes
    ----------
    opens : the engine starts here: "engine" (certain), "worker" (if the rank was done), next
        ("arguments" of its server) or not ("").
    pool_tokens : of a pool that the line allocates.
    """

    line: int
    source: str
    replica: str
    label: str
    found: Mapping[str, Interval] = field(default_factory=dict)
    opens: str = ""
    pool_tokens: int | None = None
    trait: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    failure: Failure | None = None


class EventReader:
    """A reader that keeps what each line says until the log ends."""

    engine = ""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._names: set[str] = set()  # figures since the engine last started

    def _keep(self, event: Event) -> None:
        if len(self._events) < MOST_EVENTS:
            self._events.append(event)
            self._names = set() if event.opens == "engine" else self._names
            self._names |= event.found.keys()

    @property
    def phase(self) -> str | None:
        """How far the engine has come: "load", "profile" or "built"; None before it speaks."""
        if not self._events:
            return None
        if self._names & _BUILT:
            return "built"
        return "profile" if self._names & _LOADED else "load"

    def fail(self, failure: Failure, text: str) -> None:
        """Take in a failure that no engine words as its own."""
        self._keep(Event(failure.line, source_of(text), "", CORE, failure=failure))
