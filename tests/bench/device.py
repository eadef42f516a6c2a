"""NumPy, torch and the fused Triton kernel: checked against each other, then timed.

python tests/bench/device.py [--device cuda] [--sizes 1000,100000,10000000]

Under four minutes on a machine with a GPU. With --device cpu the kernel is interpreted: slow, so
give smaller sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from kvplan.kernels.arrays import Fits, Scenarios
from kvplan.kernels.arrays.batch import Batch
from kvplan.kernels.arrays.scalar import one_by_one
from kvplan.kernels.instance import Instance
from kvplan.solver.formulate.formulation import formulate

sys.path.insert(0, str(Path(__file__).parent))
from instances import nine_caches, shipped

GIB = 2**30
SEED = 20_261
MOST_ON_HOST = 10**6
"""Scenarios that NumPy is asked for; beyond, it answers a sample."""


def scenarios_of(number: int) -> Scenarios:
    """Quotas and requested capacities, so that no table of quotas can answer."""
    random = np.random.default_rng(SEED)
    quotas = random.integers(GIB, 80 * GIB, (number, 1))
    return Scenarios(number, quotas, {0: random.integers(2**10, 2**20, number)})


def picked(scenarios: Scenarios, at: Any) -> Scenarios:
    """Some of the scenarios."""
    return Scenarios(len(at), scenarios.quotas[at], {0: scenarios.capacities[0][at]})


def is_equal(one: Fits, other: Fits) -> bool:
    """Bit for bit; arrays on a device are compared there."""
    for each in fields(Fits):
        a, b = getattr(one, each.name), getattr(other, each.name)
        if isinstance(a, np.ndarray) != isinstance(b, np.ndarray):
            a, b = (x if isinstance(x, np.ndarray) else x.cpu().numpy() for x in (a, b))
        if a.shape != b.shape or not bool((a == b).all()):
            return False
    return True


def timed(job: Callable[[], Fits], wait: Callable[[], None], rounds: int) -> tuple[Fits, float]:
    """Result and best seconds; the first round warms up."""
    best, fits = float("inf"), job()
    wait()
    for _ in range(rounds):
        start = time.perf_counter()
        fits = job()
        wait()
        best = min(best, time.perf_counter() - start)
    return fits, best


def sized(instance: Instance, number: int, device: str, wait: Callable[[], None]) -> dict[str, Any]:
    """One size: seconds and plans a second of each, and whether all agree."""
    from kvplan.kernels.triton.launch import Launch

    scenarios = scenarios_of(number)
    few = picked(scenarios, np.random.default_rng(SEED).integers(0, number, 40))
    on_host = scenarios if number <= MOST_ON_HOST else scenarios.part(0, MOST_ON_HOST)
    host, batch, launch = Batch(instance), Batch(instance, device), Launch(instance, device)
    rounds = 2 if number < 10**6 else 1
    by_numpy, numpy_seconds = timed(lambda: host.fit(on_host), lambda: None, 1)
    by_torch, torch_seconds = timed(lambda: batch.fit(scenarios), wait, rounds)
    by_triton, triton_seconds = timed(lambda: launch.fit(scenarios), wait, rounds)
    first = by_triton.mapped(lambda array: array[: on_host.number])
    return {
        "scenarios": number,
        "numpy": rate(on_host.number, numpy_seconds),
        "torch": rate(number, torch_seconds),
        "triton": rate(number, triton_seconds),
        "equal": {
            "triton = torch": is_equal(by_triton, by_torch),
            "triton = numpy": is_equal(first, by_numpy),
            "numpy = scalar": is_equal(host.fit(few), one_by_one(instance, few)),
        },
    }


def rate(number: int, seconds: float) -> dict[str, float]:
    """Seconds and plans a second."""
    return {"seconds": round(seconds, 5), "plans_per_second": round(number / seconds)}


def shipped_agree(device: str) -> dict[str, bool]:
    """Every shipped case at 64 quotas: the kernel against the scalar search."""
    from kvplan.kernels.arrays import RefusedError
    from kvplan.kernels.triton import fit

    found = {}
    for name, problem in shipped().items():
        instance = formulate(problem).instance
        base = [rank.quota_bytes for rank in problem.ranks]
        share = np.random.default_rng(SEED).integers(200, 1500, (64, 1))
        scenarios = Scenarios(64, np.asarray(base)[None, :] * share // 1000)
        try:
            fits = fit(instance, scenarios, device=device)
        except RefusedError:
            continue
        found[name] = is_equal(fits, one_by_one(instance, scenarios))
    return found


def main() -> int:
    """Run everything and print one JSON document; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", default="1000,100000,10000000")
    options = parser.parse_args()
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
    import torch

    wait = torch.cuda.synchronize if options.device != "cpu" else lambda: None
    start = time.perf_counter()
    instance = formulate(nine_caches(1, "40GiB")).instance
    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if options.device != "cpu" else "cpu",
        "sizes": [
            sized(instance, int(size), options.device, wait) for size in options.sizes.split(",")
        ],
        "shipped": shipped_agree(options.device),
    }
    figures["seconds"] = round(time.perf_counter() - start, 1)
    json.dump(figures, sys.stdout, indent=2)
    sys.stdout.write("\n")
    agree = [all(size["equal"].values()) for size in figures["sizes"]]
    return 0 if all(agree) and all(figures["shipped"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
