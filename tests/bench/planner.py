"""plan() beside a lean plain-Python planner on TensorRT-LLM's workload; JSON on standard output.

"plan" is given a freshly built Problem at every call, "validate" builds one from plain data,
"planner" is one Planner asked for quotas that differ from call to call. Every plan is checked. A
turn repeats its job for about two milliseconds.

python tests/bench/planner.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from kvplan.models import Problem
from kvplan.solver import Planner, plan

sys.path.insert(0, str(Path(__file__).parent))
from instances import GRANULE, WINDOWS, nine_caches, slot_bytes
from reference import LifeCycle, Reference, Request
from timing import interleaved

ASKED = 2**20
SAMPLE_MS = 2.0
DIFFERENT = 64  # quotas in turn
FITS = 600_000  # tokens; the quota is what they take
EVALUATIONS = {1: 19, 32: 81, 256: 529, 1024: 2065}


def quota_for(requests: int) -> int:
    """Bytes that a plan for about 600,000 tokens takes, nothing filled."""
    data = nine_caches(requests, "2TB").model_dump(mode="json", exclude_unset=True)
    long = data["batches"][0]["requests"][0]
    long.update(capacity=FITS, fit="none")
    return plan(Problem.model_validate(data | {"fill": "none"})).ranks[0].used


def reference_job(requests: int, quota: int) -> tuple[Reference, Any]:
    """The lean planner and its call."""
    cycles = [LifeCycle(w or 0, 0, slot_bytes(i)) for i, w in enumerate(WINDOWS)]
    lean = Reference(cycles, 32, (97, 100), GRANULE)
    peers: list[Request] = [(8 + 3 * k, 3 * k) for k in range(1, requests)]
    return lean, partial(lean.plan, (ASKED, ASKED - 1), peers, [(1024, 1023)], quota)


def measure(requests: int, rounds: int) -> dict[str, Any]:
    """Medians of all, interleaved, and what each found."""
    quota = quota_for(requests)
    problem = nine_caches(requests, str(quota))
    planner = Planner(problem)
    figures = [quota - k * GRANULE for k in range(DIFFERENT)]
    quotas = cycle(figures)
    # What a problem works out once is dropped with it: each is built anew before the clock starts.
    data = problem.model_dump(mode="json", exclude_unset=True)
    fresh: list[Problem] = []

    def build() -> None:
        fresh[:] = [Problem.model_validate(data)]

    lean, job = reference_job(requests, quota)
    block_aligned, _ = job()
    assert lean.evaluations == EVALUATIONS[requests]
    exact = plan(problem).requests[0].capacity
    assert planner.plan(quota=quota).requests[0].capacity == exact >= block_aligned

    times = interleaved(
        {
            "reference": job,
            "plan": lambda: plan(fresh.pop()),
            "validate": lambda: Problem.model_validate(data),
            "planner": lambda: planner.plan(quota=next(quotas)),
        },
        rounds,
        warm=3,
        before_each={"plan": build},
        least_ms=SAMPLE_MS,
    )
    faster = {
        f"{name}_faster_by": round(times["reference"] / times[name], 1)
        for name in ("plan", "planner")
    }
    return {
        **{f"{name}_ms": round(value, 4) for name, value in times.items()},
        **faster,
        "block_aligned_tokens": block_aligned,
        "proven_tokens": exact,
    }


def main() -> None:
    """Measure every batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    rounds = parser.parse_args().rounds
    json.dump({str(n): measure(n, rounds) for n in EVALUATIONS}, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
