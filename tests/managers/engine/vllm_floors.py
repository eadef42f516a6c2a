"""kvplan's floors against vLLM's real scheduler and block pool: 60 random layouts, prints JSON.

Each layout gets exactly the blocks of its floor (and the null block), and one request of the
longest length runs to its end.
"""

from __future__ import annotations

import json
import random
from typing import Any

from vllm_real import Layer, Served, config_of, planned, specs_of

from kvplan import Problem
from kvplan.models.engines.vllm.pool_problem import POOL
from kvplan.solver.floors import need
from kvplan.solver.managers.vllm import question

LAYOUTS = 60
PLENTY = 1 << 40
OUTPUT = 8


def layout(draw: random.Random) -> list[Layer]:
    heads, dim = draw.choice((1, 2, 4)), draw.choice((64, 128))
    full = Layer(draw.randrange(1, 9), heads, dim, dim)
    window = draw.choice((64, 128, 500, 1024, 2048))
    sliding = Layer(draw.randrange(1, 31), heads, dim, dim, window)
    return [sliding, full] if draw.random() < 0.9 else [sliding]


def peak_need(problem: Problem, step: int) -> int:
    """Blocks of the longest request where a window holds itself and one step (keep: peak)."""
    data = problem.model_dump(mode="json", exclude_unset=True)
    for cache in data["caches"]:
        if cache["kind"] == "window":
            del cache["extra_blocks"]
            cache |= {"keep": "peak", "in_flight": step}
    return need(Problem.model_validate(data)).asked.blocks[POOL]


def measured(draw: random.Random) -> dict[str, Any]:
    step = draw.choice((256, 500, 512, 2048))
    length = draw.randrange(2, 7) * step + OUTPUT  # the last step of the prompt is a whole one
    config, specs = config_of(length, step, 16), specs_of(layout(draw))
    problem = question(config, [specs], [PLENTY], version="0.32.0")
    floor = need(problem).asked.blocks[POOL]
    (block,) = {pool.bytes for pool in problem.pools}
    assert isinstance(block, int)
    served = Served(config, planned(config, specs, (floor + 1) * block))
    served.add("longest", length - OUTPUT, OUTPUT)
    peak = 0
    while served.step():
        peak = max(peak, served.blocks_held)
    windows = [c for c in problem.caches if c.kind == "window"]
    return {
        "length": length,
        "step": step,
        "window": max((cache.window or 0 for cache in windows), default=0),
        "window_groups": sum(cache.groups for cache in windows),
        "finished": not served.scheduler.requests,
        "preempted": served.preempted,
        "floor": floor,
        "keep_peak": peak_need(problem, step),
        "peak": peak,
    }


def main() -> None:
    draw = random.Random(14)
    print(json.dumps([measured(draw) for _ in range(LAYOUTS)]))


if __name__ == "__main__":
    main()
