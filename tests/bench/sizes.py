"""CP-SAT on problems of plausible size, without a hint: milliseconds, verdict, gap of each goal.

python tests/bench/sizes.py
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from kvplan.solver.cpsat import solve_program
from kvplan.solver.formulate.formulation import formulate

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.sizes import SIZES, Size, sized


def measured(size: Size) -> dict[str, Any]:
    """One answer of CP-SAT, and how far its goals are proven."""
    problem = sized(size)
    started = time.perf_counter()
    instance = formulate(problem).instance
    formulated = time.perf_counter()
    solved = solve_program(instance)
    ended = time.perf_counter()
    report: dict[str, Any] = {
        "formulate_ms": round((formulated - started) * 1e3, 1),
        "cpsat_ms": round((ended - formulated) * 1e3, 1),
        "deterministic_time": round(solved.deterministic_time, 3),
        "verdict": solved.verdict.value,
    }
    if solved.answer is not None:
        pairs = zip(solved.answer.values, solved.answer.bounds, strict=True)
        proven = sum(bound is not None and value == bound for value, bound in pairs)
        report["goals_proven"] = f"{proven} of {len(solved.answer.values)}"
    return report


if __name__ == "__main__":
    json.dump({name: measured(size) for name, size in SIZES.items()}, sys.stdout, indent=2)
    sys.stdout.write("\n")
