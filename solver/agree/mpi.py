"""mpi4py communicators, by messages that never block."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvplan.solver.agree.members import MemberComm

_TAG = 27_182  # below the 32767 that every MPI has
_PIECE = 1024
"""Bytes of a message: so short that MPI takes it off the sender at once (it is sent eagerly), even
when the receiver has died, and no request is left open at the end."""


class _MessageBox:
    """A mailbox that every rank of the world has a copy of: what is put is sent to all."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._asked: Counter[str] = Counter()
        self._values: dict[str, bytes] = {}
        self._pieces: dict[str, list[bytes]] = {}
        self._sent: list[Any] = []

    def put(self, key: str, value: bytes) -> None:
        self._values[key] = value
        pieces = [value[at : at + _PIECE] for at in range(0, len(value), _PIECE)] or [b""]
        me = self._world.Get_rank()
        for piece in pieces:
            message = b"\n".join((key.encode(), str(len(pieces)).encode(), piece))
            for rank in range(self._world.Get_size()):
                if rank != me:
                    self._sent.append(self._world.Isend(message, dest=rank, tag=_TAG))
            self._receive()
        self._sent = [request for request in self._sent if not request.Test()]

    def get(self, key: str) -> bytes | None:
        self._receive()
        return self._values.get(key)

    def count(self, key: str) -> int:
        self._asked[key] += 1
        return self._asked[key] - 1

    def _receive(self) -> None:
        """Take in every message that has come; those of one sender come in order."""
        from mpi4py import MPI

        status = MPI.Status()
        while self._world.Iprobe(source=MPI.ANY_SOURCE, tag=_TAG, status=status):
            buffer = bytearray(status.Get_count(MPI.BYTE))
            self._world.Recv(buffer, source=status.Get_source(), tag=_TAG)
            key, total, piece = bytes(buffer).split(b"\n", 2)
            pieces = self._pieces.setdefault(key.decode(), [])
            pieces.append(piece)
            if len(pieces) == int(total):
                self._values[key.decode()] = b"".join(self._pieces.pop(key.decode()))


_BOXES: dict[int, _MessageBox] = {}  # one a process: all communicators share the world's messages


class MpiComm(MemberComm):
    """All members of mpi4py communicators: `MpiComm(tp_comm, pcp_comm)`.

    Parameters
    ----------
    comms : intra-communicators; none: the world. One of a single rank adds nobody.
    name : of this use, where several share ranks at the same time.
    """

    def __init__(self, *comms: Any, name: str = "kvplan") -> None:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        everyone = world.Get_group()
        groups = []
        for comm in comms or (world,):
            group = comm.Get_group()
            groups.append(group.Translate_ranks(list(range(group.Get_size())), everyone))
        box = _BOXES.setdefault(0, _MessageBox(world))
        super().__init__(world.Get_rank(), groups, box, name)
