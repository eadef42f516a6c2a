"""Gather bytes from every rank within our own timeout, whatever the communicator's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kvplan.models import AgreementFailed

Result = TypeVar("Result")


class Comm(Protocol):
    """What `plan_together` asks of a communicator; one method is enough.

    A communicator that can tell which ranks are missing also has
    `gather_within(payload, timeout) -> {rank: payload}`, which keeps the time itself.
    """

    def all_gather(self, payload: bytes) -> list[bytes]:
        """The payloads of all ranks, of any length, in the same order on every rank."""
        ...


def gather(comm: Comm, payload: bytes, timeout: float) -> dict[int, bytes]:
    """Payloads by rank, in ascending order.

    Parameters
    ----------
    timeout : seconds that a rank may be late.

    Raises
    ------
    AgreementFailed : a rank did not answer in time, or the communicator broke. The text depends
        on what is common to the ranks only.
    """
    within: Any = getattr(comm, "gather_within", None)
    if within is not None:
        parts: dict[int, bytes] = within(payload, timeout)
    else:
        parts = dict(enumerate(run_within(lambda: comm.all_gather(payload), timeout)))
    return {rank: bytes(parts[rank]) for rank in sorted(parts)}


def run_within(function: Callable[[], Result], seconds: float) -> Result:
    """Run in a separate thread and wait at most so long; a stuck thread is abandoned.

    It is a daemon, so Python does not wait for it at the end; a backend may, up to its own timeout
    (a gloo group waits for an open collective). `TorchComm` and `MpiComm` leave nothing open.

    Raises
    ------
    AgreementFailed : it was not done in time, or failed.
    """
    done: list[Result] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            done.append(function())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="kvplan-gather", daemon=True)
    thread.start()
    thread.join(seconds)
    if done:
        return done[0]
    if failed:
        if isinstance(failed[0], AgreementFailed):
            raise failed[0]
        # What a library says of a broken connection differs from rank to rank.
        raise AgreementFailed(
            ["the communicator failed: a rank has ended, or the network is broken"]
        ) from failed[0]
    raise AgreementFailed([f"{silent('a rank', seconds)} (this communicator cannot tell which)"])


def silent(who: str, seconds: float) -> str:
    """Say that ranks did not answer."""
    return f"{who} did not answer within {seconds:g} s"
