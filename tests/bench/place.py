"""Speed of placement: medians in one run, JSON on standard output.

python tests/bench/place.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from functools import partial

from timing import interleaved

from kvplan.solver.place.order import best_order
from kvplan.solver.place.stages import Stages, best_partition

GIB, MIB = 2**30, 2**20
PIPELINES = ((61, 4), (80, 8), (94, 8))


def pipeline(layers: int, stages: int, seed: int) -> Stages:
    """Uneven layers and stages, with ends."""
    draw = random.Random(seed)
    sizes = tuple(draw.randint(800, 1200) * MIB for _ in range(layers))
    least = sum(sizes) // GIB // stages
    limits = tuple(draw.randint(least + 4, 2 * least + 8) * GIB for _ in range(stages))
    return Stages(sizes, ((131_072,) * layers,), limits, GIB, GIB)


def jobs() -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    found: dict[str, Callable[[], object]] = {}
    for layers, stages in PIPELINES:
        line = pipeline(layers, stages, seed=layers)
        found[f"pipeline {layers} x {stages}"] = partial(best_partition, line)
        found[f"pipeline {layers} x {stages}, any order"] = partial(best_order, line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    times = interleaved(jobs(), parser.parse_args().rounds)
    print(json.dumps({name: round(value, 3) for name, value in times.items()}, indent=2))


if __name__ == "__main__":
    main()
