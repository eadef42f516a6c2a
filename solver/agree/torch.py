"""torch.distributed groups, through the store that they were made with.

A collective on a group says neither who is missing nor stops when the caller's time is up: a
receive that times out breaks the whole gloo context, and the default is 30 minutes. The store
answers at once, whatever the backend, and a killed rank takes nothing with it but the store, if it
is the host (usually rank 0; under torchrun the agent).
"""

from __future__ import annotations

from typing import Any

from kvplan.models import SolverError
from kvplan.solver.agree.gather import run_within
from kvplan.solver.agree.members import MemberComm

_SLACK_SECONDS = 2.0  # for a store whose host is frozen


class _StoreBox:
    """A mailbox in a torch.distributed store."""

    def __init__(self, store: Any, me: int) -> None:
        self._store, self._me = store, me

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes | None:
        # get() alone would wait for the key
        return bytes(self._store.get(key)) if self._store.check([key]) else None

    def count(self, key: str) -> int:
        return int(self._store.add(f"{key}/{self._me}/calls", 1)) - 1


class TorchComm(MemberComm):
    """All members of torch.distributed groups: `TorchComm(tp_group, pcp_group)`.

    Parameters
    ----------
    groups : process groups; none: the default group. One that this rank is no member of, or the
        only member of, adds nobody.
    store : the store that all members share; default: that of the default group.
    name : of this use, where several share a store and a group at the same time.
    """

    def __init__(self, *groups: Any, store: Any = None, name: str = "kvplan") -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            raise SolverError("torch.distributed is not initialised: no group to agree in")
        joined = [
            g for g in groups or (dist.group.WORLD,) if g != dist.GroupMember.NON_GROUP_MEMBER
        ]
        ranks = [dist.get_process_group_ranks(group) for group in joined]
        box = _StoreBox(_default_store() if store is None else store, dist.get_rank())
        super().__init__(dist.get_rank(), ranks, box, name)

    def gather_within(self, payload: bytes, timeout: float) -> dict[int, bytes]:
        """As every communicator over members; a store that does not answer is left behind too."""
        gather = super().gather_within
        return run_within(lambda: gather(payload, timeout), 3 * timeout + _SLACK_SECONDS)


def _default_store() -> Any:
    """The store of the default group, which torch has no public name for."""
    from torch.distributed import distributed_c10d

    found = getattr(distributed_c10d, "_get_default_store", None)
    if found is None:
        raise SolverError("this torch does not show the store of its default group: pass store=")
    return found()
