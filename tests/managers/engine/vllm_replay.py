"""200 mixed requests through vLLM's real scheduler, with its own groups and with kvplan's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from traces import trace
from vllm_real import Layer, Served, config_of, planned, specs_of

from kvplan.solver.managers import vllm as manager

GIB = 1 << 30
SHAPES = {
    "gemma-3-27b": ([Layer(52, 16, 128, 128, 1024), Layer(10, 16, 128, 128)], 16),
    "gpt-oss-120b": ([Layer(18, 8, 64, 64, 128), Layer(18, 8, 64, 64)], 4),
    "MiMo-V2-Flash": ([Layer(39, 8, 192, 128, 128), Layer(9, 4, 192, 128)], 4),
}


def run(layers: list[Layer], gib: int, mode: str) -> dict[str, Any]:
    os.environ["KVPLAN"] = mode
    config = config_of(length=32768, step=2048, requests=256)
    kv = planned(config, specs_of(layers), gib * GIB)
    served = Served(config, kv)
    for index, (prompt, output) in enumerate(trace()):
        served.add(str(index), prompt, output)
    began = time.perf_counter()
    while served.step():
        pass
    assert not served.scheduler.requests
    return {
        "groups": [len(group.layer_names) for group in kv.kv_cache_groups],
        "blocks": kv.num_blocks,
        "steps": served.steps,
        "preempted": served.preempted,
        "most_running": served.most_running,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    path = Path(mkdtemp()) / "workload.json"
    requests = [{"capacity": prompt + output} for prompt, output in trace()]
    path.write_text(json.dumps({"requests": requests}))
    os.environ |= {"KVPLAN": "apply", "KVPLAN_WORKLOAD": str(path)}
    manager.register()
    found = {
        name: {mode: run(layers, gib, mode) for mode in ("off", "apply")}
        for name, (layers, gib) in SHAPES.items()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
