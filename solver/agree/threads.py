"""Ranks as threads of one process: for tests, and for engines that work this way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from kvplan.solver.agree.members import MemberComm


class _Box:
    """The mailbox of one member, on the shelf that all share."""

    def __init__(self, shelf: dict[str, bytes], lock: threading.Lock) -> None:
        self._shelf, self._lock = shelf, lock
        self._asked: Counter[str] = Counter()

    def put(self, key: str, value: bytes) -> None:
        with self._lock:
            self._shelf[key] = value

    def get(self, key: str) -> bytes | None:
        with self._lock:
            return self._shelf.get(key)

    def count(self, key: str) -> int:
        with self._lock:
            self._asked[key] += 1
            return self._asked[key] - 1


class Hub:
    """Where threads of one process meet."""

    def __init__(self) -> None:
        self._shelf: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._boxes: dict[int, _Box] = {}

    def comm(self, me: int, *groups: Sequence[int], name: str = "kvplan") -> MemberComm:
        """The communicator of thread `me` over the members of its groups."""
        with self._lock:
            box = self._boxes.setdefault(me, _Box(self._shelf, self._lock))
        return MemberComm(me, groups, box, name)
