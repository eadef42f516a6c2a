"""Sweeps on the host: plans per second, memory, and integer operations beside what cores can do.

python tests/bench/sweep.py [--rounds N] [--scenarios N]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kvplan.kernels.arrays import Fits, Given, Scenarios
from kvplan.kernels.arrays.arrays import Arrays
from kvplan.kernels.arrays.batch import Batch
from kvplan.kernels.arrays.scalar import one_by_one
from kvplan.kernels.arrays.table import Swept
from kvplan.kernels.instance import Instance
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.sweep.by_name import fit as fit_by_name

sys.path.insert(0, str(Path(__file__).parent))
from instances import nine_caches

GIB = 2**30
SEED = 20_261


class Counted(np.ndarray[Any, Any]):
    """An array that counts the elements of every operation on it."""

    elements = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, Counted) else each for each in inputs]
        found = getattr(ufunc, method)(*plain, **kwargs)
        Counted.elements += max(np.size(each) for each in plain)
        return found.view(Counted) if isinstance(found, np.ndarray) else found

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        def plain(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(map(plain, value))
            return value.view(np.ndarray) if isinstance(value, Counted) else value

        found = func(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})
        Counted.elements += np.size(found)
        return found.view(Counted) if isinstance(found, np.ndarray) else found


class CountedArrays(Arrays):
    """Arrays of NumPy that are counted."""

    def ints(self, values: Any) -> Any:
        """An int64 array."""
        return super().ints(values).view(Counted)


def operations(instance: Instance, scenarios: Scenarios, number: int) -> float:
    """Integer operations a plan, by counting them on the first scenarios."""
    batch = Batch(instance)
    batch.arrays = CountedArrays()
    for candidates in batch.candidates.values():
        candidates.arrays = batch.arrays
    part = scenarios.part(0, min(number, scenarios.number))
    limits = batch.layout.limits(batch.arrays, part.quotas)
    Counted.elements = 0
    batch._tile(part, limits)
    return Counted.elements / part.number


def core_operations() -> float:
    """64-bit additions a second on one core, in arrays that its cache holds."""
    a = np.arange(1 << 14)
    b, out = a + 1, a * 2
    best = 0.0
    for _ in range(50):
        start = time.perf_counter()
        for _ in range(50):
            np.add(a, b, out=out)
        best = max(best, 50 * a.size / (time.perf_counter() - start))
    return best


def timed(job: Callable[[], Any], rounds: int) -> tuple[Any, float, float]:
    """Result, median wall seconds, median processor seconds."""
    walls, cores, found = [], [], None
    for _ in range(rounds):
        wall, core = time.perf_counter(), time.process_time()
        found = job()
        walls.append(time.perf_counter() - wall)
        cores.append(time.process_time() - core)
    return found, median(walls), median(cores)


def is_right(instance: Instance, scenarios: Scenarios, fits: Fits, number: int = 25) -> bool:
    """Some scenarios against the scalar search."""
    at = np.random.default_rng(SEED).integers(0, scenarios.number, number)
    for index in map(int, at):
        one = one_by_one(instance, scenarios.part(index, index + 1))
        if one.point(0) != fits.point(index):
            return False
    return True


def report(number: int, wall: float, cores: float) -> dict[str, float]:
    """Figures of one job."""
    return {
        "seconds": round(wall, 4),
        "processor_seconds": round(cores, 4),
        "plans_per_second": round(number / wall),
        "plans_per_processor_second": round(number / cores),
    }


def quotas_only(number: int, requests: int, rounds: int) -> dict[str, Any]:
    """Quotas alone vary: indices into plans, then every decision."""
    instance = formulate(nine_caches(requests, "40GiB")).instance
    quotas = np.random.default_rng(SEED).integers(GIB, 80 * GIB, (number, 1))
    scenarios = Scenarios(number, quotas)
    swept, wall, cores = timed(lambda: Batch(instance).sweep(scenarios), rounds)
    assert isinstance(swept, Swept)
    fits, more_wall, more_cores = timed(swept.expand, rounds)
    return {
        "plans": int(swept.plans.feasible.shape[0]),
        "indices": report(number, wall, cores),
        "every_decision": report(number, wall + more_wall, cores + more_cores),
        "right": is_right(instance, scenarios, fits),
    }


def everything(number: int, rounds: int) -> dict[str, Any]:
    """Quota, the requested capacity, and a peer's capacity and count vary."""
    instance = formulate(nine_caches(32, "40GiB")).instance
    random = np.random.default_rng(SEED)
    capacity = random.integers(8, 20_000, number)
    scenarios = Scenarios(
        number,
        random.integers(4 * GIB, 80 * GIB, (number, 1)),
        capacities={0: random.integers(2**15, 2**20, number)},
        given=(Given(0, capacity, capacity - 8, random.integers(1, 16, number)),),
    )
    batch = Batch(instance)
    fits, wall, cores = timed(lambda: batch.fit(scenarios), rounds)
    counted = operations(instance, scenarios, 4096)
    most = core_operations()
    return {
        **report(number, wall, cores),
        "operations_per_plan": round(counted),
        "core_operations_per_second": round(most),
        "limit_plans_per_processor_second": round(most / counted),
        "right": is_right(instance, scenarios, fits),
    }


def unequal_ranks(number: int, rounds: int) -> dict[str, Any]:
    """Two stages whose quotas vary apart: no unit repeats, staircases answer the first goal."""
    problem = nine_caches(1, "40GiB").model_dump(mode="json", exclude_unset=True)
    for pool in problem["pools"]:
        for buffer in pool["buffers"]:
            buffer["bytes"] = {"0": buffer["bytes"], "1": buffer["bytes"] * 3 // 4}
    problem["ranks"] = [{"name": f"r{i}", "stage": i, "quota": "40GiB"} for i in range(2)]
    instance = formulate(type(nine_caches(1, "1GiB")).model_validate(problem)).instance
    quotas = np.random.default_rng(SEED).integers(GIB, 80 * GIB, (number, 2))
    scenarios = Scenarios(number, quotas)
    batch = Batch(instance)
    fits, wall, cores = timed(lambda: batch.fit(scenarios), rounds)
    return {**report(number, wall, cores), "right": is_right(instance, scenarios, fits)}


def by_name(number: int, rounds: int) -> dict[str, Any]:
    """Through names, with "auto" granules: five classes of quota."""
    data = nine_caches(1, "40GiB").model_dump(mode="json", exclude_unset=True)
    for pool in data["pools"]:
        for buffer in pool["buffers"]:
            buffer["granule"] = "auto"
    problem = type(nine_caches(1, "1GiB")).model_validate(data)
    quotas = np.random.default_rng(SEED).integers(GIB, 80 * GIB, number)
    _, wall, cores = timed(lambda: fit_by_name(problem, {"quota": quotas}), rounds)
    return report(number, wall, cores)


def main() -> None:
    """Run everything and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenarios", type=int, default=10**6)
    options = parser.parse_args()
    number, rounds = options.scenarios, options.rounds
    figures = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "scenarios": number,
        "quotas, 1 request": quotas_only(number, 1, rounds),
        "quotas, 1024 distinct requests": quotas_only(number, 1024, rounds),
        "quotas by name, auto granules": by_name(number, rounds),
        "quotas of two unequal stages": unequal_ranks(number // 5, max(1, rounds // 2)),
        "quotas, capacities and counts": everything(number // 5, max(1, rounds // 2)),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    json.dump(figures, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
