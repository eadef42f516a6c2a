"""Views of ranks that measure different bytes, and threads that stand in for the ranks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvplan.models.measured.local import LocalView
from kvplan.solver.agree import Comm, plan_together

# ROCm/ATOM PR #3171, DeepSeek-V4-Pro, TP4+PCP2: non_torch and free of the eight ranks, in GiB.
NON_TORCH = ("14.10", "14.46", "14.27", "14.13", "14.33", "14.44", "14.31", "14.46")
FREE = ("160.40", "160.04", "160.22", "160.37", "160.17", "160.06", "160.18", "160.04")
BLOCK_BYTES = 1_399_040
STATE_BYTES = 12 * 2**30


def question(**changes: Any) -> dict[str, Any]:
    """A problem without ranks: one pool beside per-request state."""
    return {
        "pools": [{"name": "paged", "bytes": BLOCK_BYTES}],
        "caches": [{"name": "full", "kind": "full", "tokens_per_block": 256}],
        "consumers": [{"name": "state", "bytes": STATE_BYTES}],
        **changes,
    }


def entry(rank: int, **changes: Any) -> dict[str, Any]:
    """What a rank of that log measured."""
    memory = {
        "total": "287.98GiB",
        "free": f"{FREE[rank]}GiB",
        "utilization": 0.9,
        "peak_torch": "114.06GiB",
        "non_torch": f"{NON_TORCH[rank]}GiB",
        "graphs": "0.34GiB",
        "safety": {"fraction": 0.02},
    }
    return {"name": f"r{rank}", "memory": memory, **changes}


def view(rank: int, **changes: Any) -> LocalView:
    """The view of a rank, sections of the problem changed."""
    return LocalView.of(question(**changes), entry(rank))


class Told(NamedTuple):
    """How a rank ended: the kind of its answer, the text of it, and the seconds that it took."""

    kind: str
    text: str
    seconds: float


def ask(local: LocalView | Callable[[], LocalView], comm: Comm, timeout: float = 20.0) -> Told:
    """Plan together; the answer or the error as text."""
    start = time.monotonic()
    try:
        answer = plan_together(local, comm, timeout)
    except Exception as error:
        return Told(type(error).__name__, str(error), time.monotonic() - start)
    text = f"{answer.blocks} {answer.digest}"
    return Told("Plan", text, time.monotonic() - start)


def in_threads(works: Sequence[Callable[[], Told] | None]) -> list[Told | None]:
    """Run each rank's work at once; None is a rank that never calls."""
    told: list[Told | None] = [None] * len(works)

    def run(index: int, work: Callable[[], Told]) -> None:
        told[index] = work()

    threads = [
        threading.Thread(target=run, args=(index, work), daemon=True)
        for index, work in enumerate(works)
        if work is not None
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"
    return told
