"""Ranks in processes: SGLang's real configurator and world group (gloo); prints JSON.

Arguments: a port, then the bytes of each rank. The ranks are forks of one process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch.distributed as dist
from sglang.srt.distributed import parallel_state
from sglang.srt.plugins import hook_registry
from sglang_real import PARALLEL, window_model

from kvplan.solver.managers import sglang as manager

WORKLOAD = {"mix": [{"capacity": 2000, "share": 3}, {"capacity": 12000, "share": 1}]}
FIGURES = ("full_max_total_num_tokens", "swa_max_total_num_tokens")


def sized(budget_bytes: int) -> dict[str, Any]:
    """Tokens of SGLang's own split, and of the one that kvplan makes; gpt-oss-120b."""
    model = window_model(18, 18, (8, 8), (64, 64), 128)
    found = {}
    for mode in ("off", "apply"):
        os.environ["KVPLAN"] = mode
        config = model.config_from_budget(budget_bytes)
        found[mode] = [getattr(config, figure) for figure in FIGURES]
    return found


def serve(port: str, rank: int, budgets: list[int], folder: Path) -> None:
    """One rank: join the group, then size."""
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=len(budgets))
    group = parallel_state.init_world_group(list(range(len(budgets))), rank, "gloo")
    PARALLEL.launch_world_size, PARALLEL.world_group = len(budgets), group
    found = {"group": type(group).__name__, "rank": group.rank_in_group, **sized(budgets[rank])}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()  # the store lives in rank 0


def forked(port: str, budgets: list[int], folder: Path) -> int:
    """Run all ranks; how many failed."""
    children = []
    for rank in range(len(budgets)):
        child = os.fork()
        if child == 0:
            try:
                serve(port, rank, budgets, folder)
            except BaseException:
                logging.exception("rank %d", rank)
                os._exit(1)
            os._exit(0)
        children.append(child)
    return sum(bool(os.waitpid(child, 0)[1]) for child in children)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    port, budgets = sys.argv[1], [int(text) for text in sys.argv[2:]]
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "workload.json").write_text(json.dumps(WORKLOAD))
        os.environ |= {"KVPLAN": "check", "KVPLAN_WORKLOAD": str(folder / "workload.json")}
        manager.register()
        hook_registry.HookRegistry.apply_hooks()
        if forked(port, budgets, folder):
            sys.exit("a rank failed")
        found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(len(budgets))]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
