"""Four MPI ranks: each runs every scenario and writes down how it ended (argument: the folder)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from mpi4py import MPI

from kvplan.models.measured.local import LocalView
from kvplan.solver.agree import MpiComm
from support.agreeing import ask, view

HASTY = 2.5
world = MPI.COMM_WORLD
rank = world.Get_rank()


def fails() -> LocalView:
    """A measurement that raises."""
    raise RuntimeError("device lost" + 2**20 * "x")


def late() -> LocalView:
    """A measurement that takes its time."""
    time.sleep(2 * HASTY)
    return view(rank)


def main() -> None:
    """Run the scenarios; no barrier between them, and none at the end."""
    grid = MpiComm(world.Split(rank // 2), world.Split(rank % 2), world.Split(rank))
    layout = {"tokens_per_block": 32} if rank == 1 else {}
    told = {
        "world": ask(view(rank), MpiComm()),
        "grid": ask(view(rank), grid),
        "raises": ask(fails if rank == 3 else view(rank), grid),
        "layout": ask(view(rank, **layout), MpiComm()),
        "slow": ask(late if rank == 2 else view(rank), grid, HASTY),
        "again": ask(view(rank), grid),
    }
    pieces = MpiComm(name="bytes").all_gather(bytes([rank]) * (1 + 300_000 * rank))
    lengths = [[piece[0], len(piece)] for piece in pieces]
    path = Path(sys.argv[1]) / f"{rank}.json"
    path.write_text(json.dumps({**told, "bytes": lengths}))


main()
