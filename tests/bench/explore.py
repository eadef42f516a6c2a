"""explore() beside one scalar search a row; JSON on standard output.

python tests/bench/explore.py [--rounds N] [--rows N ...]
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

from kvplan.models import Problem
from kvplan.solver.explore.decided import Numbers, empty_figures, put
from kvplan.solver.explore.grid import Grid, build_grid
from kvplan.solver.explore.result_table import table_of
from kvplan.solver.explore.sweep import entries_at, solve_grid

sys.path.insert(0, str(Path(__file__).parent))
from instances import nine_caches, shipped

GIB = 2**30
SEED = 20_261
QUOTA = "ranks.*.quota"
ALONE = 400
"""Rows that the scalar search solves, to be timed and compared."""


def quotas(low: int, high: int, number: int) -> range:
    """So many quotas from `low` to `high` GiB."""
    return range(low * GIB, high * GIB, (high - low) * GIB // number)


def axis(path: str, low: int, high: int, number: int) -> dict[str, range]:
    """So many whole numbers of one field."""
    return {path: range(low, high, max(1, (high - low) // number))}


def jobs(rows: int) -> dict[str, tuple[Problem, dict[str, Any]]]:
    """Problem and varied fields by name; each grid of about `rows` rows."""
    cases, side = shipped(), round(rows**0.5)
    context = "batches.longest.requests.context.capacity"
    long, peer = "batches.0.requests.0.capacity", "batches.0.requests.1.count"
    return {
        "Strata, quota": (cases["strata_765"], {QUOTA: quotas(5, 13, rows)}),
        "Strata, quota x context": (
            cases["strata_765"],
            {QUOTA: quotas(5, 13, side), **axis(context, 1024, 2**19, side)},
        ),
        "Strata, quota x min_slots": (
            cases["strata_765"],
            {QUOTA: quotas(5, 13, rows // 8), **axis("experts.min_slots", 64, 128, 8)},
        ),
        "nine caches, quota": (nine_caches(1, "40GiB"), {QUOTA: quotas(1, 80, rows)}),
        "nine caches, 32 requests, quota": (
            nine_caches(32, "40GiB"),
            {QUOTA: quotas(1, 80, rows)},
        ),
        "nine caches, 32 requests, quota x capacity x count": (
            nine_caches(32, "40GiB"),
            {
                QUOTA: quotas(1, 80, side),
                **axis(long, 2**15, 2**20, side // 4),
                **axis(peer, 1, 5, 4),
            },
        ),
    }


def timed(job: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    """Result and median wall seconds."""
    walls, found = [], None
    for _ in range(rounds):
        start = time.perf_counter()
        found = job()
        walls.append(time.perf_counter() - start)
    return found, median(walls)


def alone(grid: Grid) -> tuple[bool, float]:
    """Rows all over the grid, one scalar search each: whether they are equal, seconds a row."""
    together = solve_grid(grid)
    rows = np.random.default_rng(SEED).integers(0, len(grid), ALONE)
    figures = empty_figures(grid.problem_at(0), len(grid))
    start = time.perf_counter()
    for row in map(int, rows):
        put(figures, row, entries_at(grid, row))
    seconds = (time.perf_counter() - start) / len(rows)
    is_equal = True
    for name, column in figures.items():
        other = together[name]
        if isinstance(column, Numbers) and isinstance(other, Numbers):
            is_equal &= bool((column.missing == other.missing)[rows].all())
            is_equal &= bool((column.values == other.values)[rows].all())
        else:
            is_equal &= bool((column.codes == other.codes)[rows].all())  # type: ignore[union-attr]
    return is_equal, seconds


def measure(problem: Problem, vary: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Rows a second of the whole call (grid, figures, table) and of the scalar search."""
    grid = build_grid(problem, vary)
    table, wall = timed(
        lambda: table_of(found := build_grid(problem, vary), solve_grid(found)), rounds
    )
    is_equal, seconds = alone(grid)
    return {
        "rows": len(grid),
        "infeasible": int((table["status"] == "infeasible").sum()),
        "seconds": round(wall, 4),
        "rows_per_second": round(len(grid) / wall),
        "one_by_one_rows_per_second": round(1 / seconds),
        "faster_by": round(seconds * len(grid) / wall, 1),
        "equal": is_equal,
    }


def main() -> None:
    """Run everything and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, nargs="*", default=[2_500, 250_000])
    options = parser.parse_args()
    figures: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    for rows in options.rows:
        figures[f"{rows} rows"] = {
            name: measure(problem, vary, options.rounds)
            for name, (problem, vary) in jobs(rows).items()
        }
    figures["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    json.dump(figures, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
