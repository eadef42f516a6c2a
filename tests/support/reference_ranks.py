"""Eight processes, each with a manager of its own: they agree on a plan, then one of them dies.

python reference_ranks.py PORT FOLDER; the ranks are forks of one process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from kvplan.models import AgreementFailed, Problem
from kvplan.models.measured.local import LocalView
from kvplan.solver.agree import TorchComm, plan_together
from support.reference_manager import Manager

WORLD, KILLED = 8, 5
PATIENT, HASTY = 30.0, 2.5


def main(port: int, folder: Path, rank: int) -> None:
    """Agree, serve, and find that one rank is gone."""
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=WORLD,
        timeout=timedelta(seconds=60),
    )
    problem = Problem.load(folder / "problem.json")
    entry = {"name": f"r{rank}", "quota": (1 << 20) - rank * 1000}
    view, comm = LocalView.of(problem, entry), TorchComm()
    answer = plan_together(view, comm, PATIENT)
    manager = Manager(problem, answer)
    manager.admit("longest", answer.requests[0].capacity)
    told = {
        "digest": answer.digest,
        "blocks": dict(answer.blocks),
        "bytes": manager.bytes,
        "tightest": min(answer.ranks, key=lambda each: each.slack).name,
    }
    if rank == KILLED:
        (folder / f"{rank}.json").write_text(json.dumps(told))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        plan_together(view, comm, HASTY)
    except AgreementFailed as error:
        told["error"] = str(error)
    manager.retire("longest")
    told["free"] = all(pool.used == 0 for pool in manager.pools.values())
    (folder / f"{rank}.json").write_text(json.dumps(told))
    (folder / f"{rank}.done").touch()
    while rank == 0 and len(list(folder.glob("*.done"))) < WORLD - 1:
        time.sleep(0.01)  # the store lives here


if __name__ == "__main__":
    children = []
    for number in range(WORLD):
        child = os.fork()
        if child == 0:
            main(int(sys.argv[1]), Path(sys.argv[2]), number)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
