"""Eight gloo ranks: each runs every scenario in turn and writes down how it ended.

python torch_ranks.py PORT FOLDER; TP groups are 0-3 and 4-7, PCP groups k and k + 4. The ranks are
forks of one process that has imported torch already, which takes longer than all scenarios.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from kvplan.models.measured.local import LocalView
from kvplan.solver.agree import TorchComm, message, plan_together
from support.agreeing import ask, entry, question, view

WORLD = 8
PATIENT, HASTY = 30.0, 2.5


def fork_ranks(folder: Path) -> int:
    """Number of the rank that this process is; the first process waits for all and ends."""
    children = {}
    for number in range(WORLD):
        child = os.fork()
        if child == 0:
            words = os.open(folder / f"{number}.err", os.O_WRONLY | os.O_CREAT)
            os.dup2(words, 2)
            return number
        children[child] = number
    codes = {children[child]: os.waitpid(child, 0)[1] for child in children}
    ended = {number: os.waitstatus_to_exitcode(status) for number, status in codes.items()}
    (folder / "codes.json").write_text(json.dumps([ended[number] for number in range(WORLD)]))
    sys.exit(0)


port, folder = int(sys.argv[1]), Path(sys.argv[2])
rank = fork_ranks(folder)
told: dict[str, Any] = {}


def note(name: str, local: LocalView | Callable[[], LocalView], comm: Any, seconds: float) -> None:
    """Run a scenario and write down how it ended here."""
    told[name] = ask(local, comm, seconds)
    (folder / f"{rank}.json").write_text(json.dumps(told))


class Plain:
    """A communicator of one method, over collectives: it can neither stop nor tell who is late."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def all_gather(self, payload: bytes) -> list[bytes]:
        parts: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(parts, payload, group=self._group)
        return parts


def fails(text: str) -> Callable[[], LocalView]:
    """A measurement that raises."""

    def measure() -> LocalView:
        raise RuntimeError(text)

    return measure


def late(seconds: float) -> Callable[[], LocalView]:
    """A measurement that takes its time."""

    def measure() -> LocalView:
        time.sleep(seconds)
        return view(rank)

    return measure


def staged(stage_of: Callable[[int], int]) -> LocalView:
    """A pipeline of two stages: blocks of the second hold fewer layers."""
    pools = [{"name": "paged", "bytes": {"0": 1_399_040, "1": 1_000_000}}]
    return LocalView.of(question(pools=pools), entry(rank, stage=stage_of(rank)))


def short_by_one() -> LocalView:
    """Rank 5 has one byte less than 86,000 blocks and the state take; the others enough."""
    needed = 86_000 * 1_399_040 + 12 * 2**30
    pools = [{"name": "paged", "bytes": 1_399_040, "min_blocks": 86_000}]
    own = {"name": f"r{rank}", "quota": needed - (1 if rank == 5 else 0)}
    return LocalView.of(question(pools=pools), own)


def die_with_the_verdict(comm: TorchComm) -> None:
    """Kill this process when its view is out and its verdict is not."""
    put = comm._mailbox.put

    def put_or_die(key: str, value: bytes) -> None:
        if key.endswith("/verdict"):
            os.kill(os.getpid(), signal.SIGKILL)
        put(key, value)

    comm._mailbox.put = put_or_die  # type: ignore[method-assign]


def agreements(world: TorchComm, grid: TorchComm) -> None:
    """Everything is as it should be."""
    note("world", view(rank), world, PATIENT)
    note("grid", view(rank), grid, PATIENT)
    note("stages", staged(lambda r: r // 4), world, PATIENT)
    note("plain", view(rank), Plain(None), PATIENT)
    pieces = world.all_gather(bytes([rank]) * (1000 + 125_000 * rank))
    told["bytes"] = [[piece[0], len(piece)] for piece in pieces]


def faults(world: TorchComm, grid: TorchComm) -> None:
    """One rank is wrong, all are there."""
    note("raises", fails("device lost") if rank == 3 else view(rank), grid, PATIENT)
    note("short", short_by_one(), grid, PATIENT)
    layout = {"tokens_per_block": 32} if rank == 6 else {}
    note("layout", view(rank, **layout), grid, PATIENT)
    note("long", fails("x" * 2**20) if rank == 2 else view(rank), world, PATIENT)
    known = message._version
    if rank == 7:
        message._version = lambda package: "0.0.1"  # type: ignore[assignment]
    note("version", view(rank), world, PATIENT)
    message._version = known
    note("slow", late(2 * HASTY) if rank == 4 else view(rank), world, HASTY)
    note("again", view(rank), world, PATIENT)


def until_noted(ranks: int) -> None:
    """Wait until so many have come through the first deaths; rank 6 never does."""
    while len(list(folder.glob("*.dead"))) < ranks:
        time.sleep(0.01)


def deaths(world: TorchComm, tp: TorchComm, plain: Plain) -> None:
    """Ranks end, one after the other, and the group has no further use."""
    if rank >= 4:
        if rank == 6:
            die_with_the_verdict(tp)
        note("killed during", view(rank), tp, HASTY)
    elif rank != 1:
        note("plain, one never calls", view(rank), plain, HASTY)
    if rank == 1:  # late on purpose: an unfinished collective would delay the end of the others
        until_noted(WORLD - 2)
        plain.all_gather(b"")
    (folder / f"{rank}.dead").touch()
    until_noted(WORLD - 1)
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    plan_together(view(rank), world, HASTY)


def main() -> None:
    """Join the ranks, and run the scenarios."""
    address = f"tcp://127.0.0.1:{port}"
    wait = timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=WORLD, timeout=wait)
    tps = [dist.new_group(list(range(base, base + 4))) for base in (0, 4)]
    pcps = [dist.new_group([base, base + 4]) for base in range(4)]
    own = [dist.new_group([base]) for base in range(WORLD)]
    tp, pcp = tps[rank // 4], pcps[rank % 4]
    world, grid = TorchComm(), TorchComm(tp, pcp, own[rank], *own[:rank])
    agreements(world, grid)
    faults(world, grid)
    deaths(world, TorchComm(tp, name="tp"), Plain(tp))


main()
