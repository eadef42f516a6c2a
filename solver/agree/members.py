"""A gather over named members that reports who is missing, the same on every rank.

It needs only a mailbox: put a value, look whether one is there. It never waits for a dead rank, so
it cannot hang.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from kvplan.models import AgreementFailed
from kvplan.solver.agree.gather import silent

DEFAULT_TIMEOUT = 60.0
_LONGEST_NAP = 0.02
_LONGEST_FAREWELL = 5.0


class Mailbox(Protocol):
    """Values by key, seen by all members; no method waits for another member."""

    def put(self, key: str, value: bytes) -> None:
        """Publish a value; a key is written once."""
        ...

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None while nobody has published it."""
        ...

    def count(self, key: str) -> int:
        """How often this member asked for this key before."""
        ...


class Group(NamedTuple):
    """Ranks that gather together, and how many gathers they have behind them."""

    ranks: tuple[int, ...]
    call: int


class View(NamedTuple):
    """What a member published: its groups, so that groups compose, and its payload."""

    groups: tuple[Group, ...]
    payload: bytes

    def encode(self) -> bytes:
        """Header as one line of JSON, then the payload."""
        return json.dumps(self.groups).encode() + b"\n" + self.payload

    @classmethod
    def decode(cls, raw: bytes) -> View:
        """Read what `encode` wrote."""
        header, _, payload = raw.partition(b"\n")
        groups = tuple(Group(tuple(ranks), call) for ranks, call in json.loads(header))
        return cls(groups, payload)


class MemberComm:
    """All members of one or several groups that share members, as the TP and the PCP group.

    Members of a member's other groups take part too: TP4 and PCP2 compose to eight ranks.

    Parameters
    ----------
    me : number of this rank in the world.
    groups : numbers of the ranks of each group; a group of one adds nobody.
    mailbox : shared by all members.
    name : of this use, where several share a mailbox and a group at the same time.
    """

    def __init__(
        self, me: int, groups: Iterable[Sequence[int]], mailbox: Mailbox, name: str = "kvplan"
    ) -> None:
        distinct = dict.fromkeys(tuple(sorted(group)) for group in groups)
        self._groups = tuple(ranks for ranks in distinct if len(ranks) > 1 and me in ranks)
        self._me, self._mailbox, self._name = me, mailbox, name

    def all_gather(self, payload: bytes) -> list[bytes]:
        """Payloads of all members, by ascending rank."""
        return list(self.gather_within(payload, DEFAULT_TIMEOUT).values())

    def gather_within(self, payload: bytes, timeout: float) -> dict[int, bytes]:
        """Payloads by rank.

        A rank that is not there after `timeout` seconds is missing. Each then says whom it
        missed, and whoever is missed by one is missing for all; a rank that ends in between is
        found after a second `timeout`. So all members raise the same, or none does.

        Raises
        ------
        AgreementFailed : ranks are missing; they are named.
        """
        if not self._groups:
            return {self._me: payload}
        own = tuple(Group(ranks, self._mailbox.count(self._key(ranks))) for ranks in self._groups)
        call = _Call(self._mailbox, self._name, self._me, own)
        call.publish("view", View(own, payload).encode())
        start = time.monotonic()
        missing = call.read_views(start + timeout)
        call.publish("verdict", json.dumps(sorted(missing)).encode())
        missing |= call.read_verdicts(missing, start + 2 * timeout)
        call.part(missing, time.monotonic() + min(timeout, _LONGEST_FAREWELL))
        if missing:
            listed = ", ".join(map(str, sorted(missing)))
            who = f"rank {listed}" if len(missing) == 1 else f"ranks {listed}"
            raise AgreementFailed([silent(who, timeout)], sorted(missing))
        return {rank: call.views[rank].payload for rank in sorted(call.views)}

    def _key(self, ranks: Sequence[int]) -> str:
        return f"{self._name}/{_identity(ranks)}"


def _identity(ranks: Sequence[int]) -> str:
    return hashlib.sha256(repr(tuple(ranks)).encode()).hexdigest()[:16]


class _Call:
    """One gather of one member: whom it knows, and what it has read."""

    def __init__(self, mailbox: Mailbox, name: str, me: int, own: tuple[Group, ...]) -> None:
        self._mailbox, self._name, self._me, self._own = mailbox, name, me, own
        self.views: dict[int, View] = {}
        self._known: dict[int, Group] = {}
        self._learn(own)

    def _learn(self, groups: Iterable[Group]) -> None:
        for group in groups:
            for rank in group.ranks:
                self._known.setdefault(rank, group)

    def _place(self, group: Group, rank: int, what: str) -> str:
        return f"{self._name}/{_identity(group.ranks)}/{group.call}/{rank}/{what}"

    def publish(self, what: str, value: bytes) -> None:
        """Leave a value in each of this member's groups."""
        for group in self._own:
            self._mailbox.put(self._place(group, self._me, what), value)

    def _read(self, rank: int, what: str) -> bytes | None:
        return self._mailbox.get(self._place(self._known[rank], rank, what))

    def read_views(self, deadline: float) -> set[int]:
        """Read views until every known member has one; those that have none at the deadline."""

        def sweep() -> set[int]:
            for rank in [rank for rank in self._known if rank not in self.views]:
                raw = self._read(rank, "view")
                if raw is not None:
                    self.views[rank] = View.decode(raw)
                    self._learn(self.views[rank].groups)
            return set(self._known) - set(self.views)

        return _until(sweep, deadline)

    def read_verdicts(self, missing: set[int], deadline: float) -> set[int]:
        """Whom the others missed, and those whose verdict does not come."""
        verdicts: dict[int, set[int]] = {}

        def sweep() -> set[int]:
            silent_ranks = set(self._known) - missing - set(verdicts)
            for rank in silent_ranks:
                raw = self._read(rank, "verdict")
                if raw is not None:
                    verdicts[rank] = set(json.loads(raw))
            return silent_ranks - set(verdicts)

        late = _until(sweep, deadline)
        return late.union(*verdicts.values())

    def part(self, missing: set[int], deadline: float) -> None:
        """Stay until the others have read too: a rank may take the mailbox with it when it ends.

        The answer is known already, so errors here are ignored.
        """
        parted: set[int] = set()

        def sweep() -> set[int]:
            staying = set(self._known) - missing - parted
            parted.update(rank for rank in staying if self._read(rank, "parted") is not None)
            return staying - parted

        with suppress(Exception):
            self.publish("parted", b"")
            _until(sweep, deadline)


def _until(sweep: Callable[[], set[int]], deadline: float) -> set[int]:
    """Sweep until nobody is left, or the time is up; whoever is left then."""
    nap = 0.0005
    while True:
        late = time.monotonic() >= deadline
        left = sweep()
        if late or not left:
            return left
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)
