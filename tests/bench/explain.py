"""Speed of explanations: medians in one run, JSON on standard output.

python tests/bench/explain.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from kvplan.solver.explain import explain

sys.path.insert(0, str(Path(__file__).parent))
from instances import at_share, shipped
from timing import interleaved, spread

REFUSAL_MS, BREAK_POINTS_MS = 200, 500


def eight_ranks(quota_gib: int = 20) -> Problem:
    """Eight unequal ranks and six demands: two batches, chunk, experts, weights and quotas."""
    return Problem.model_validate(
        {
            "ranks": [{"name": f"tp{i}", "quota": f"{quota_gib + i}GiB"} for i in range(8)],
            "resume_utilization": "0.97",
            "pools": [
                {"name": "paged", "bytes": 540672, "granule": "2MiB"},
                {"name": "state", "bytes": "2MiB", "granule": "auto", "resume_headroom": False},
            ],
            "caches": [
                {"name": "full", "pool": "paged", "kind": "full"},
                {"name": "swa", "pool": "paged", "kind": "window", "window": 1024, "keep": "live"},
                {"name": "ssm", "pool": "state", "kind": "state"},
            ],
            "batches": [
                {"name": "long", "requests": [{"name": "context", "capacity": 131072}]},
                {"name": "many", "requests": [{"name": "chat", "capacity": 4096, "count": 46}]},
            ],
            "prefill": {
                "requested": 16384,
                "min": 2048,
                "step": 256,
                "staging": [{"name": "buffers", "base": "64MiB", "per_token": "64KiB"}],
            },
            "experts": {"slot_bytes": "2MiB", "min_slots": 320, "max_slots": 2000},
            "consumers": [{"name": "weights", "bytes": "12GiB"}],
        }
    )


def refusals() -> dict[str, Problem]:
    """The eight ranks, and the shipped cases at a third of what they need."""
    found = {"eight ranks": eight_ranks()}
    for name, problem in shipped().items():
        small = at_share(problem, Fraction(1, 12))
        try:
            plan(small)
        except Infeasible:
            found[f"{name} at 1/12"] = small
    return found


def advised(problem: Problem) -> int:
    """Refuse, and explain the refusal: conflict, remedies, what was ruled out."""
    try:
        plan(problem)
    except Infeasible as error:
        return len(error.remedies)
    raise AssertionError("the problem fits")


def report_of(times: dict[str, float], limit_ms: float) -> dict[str, Any]:
    """Times by problem, their spread, and those over the limit."""
    return {
        "each_ms": {name: round(value, 2) for name, value in times.items()},
        "over_limit": [name for name, value in times.items() if value > limit_ms],
        "limit_ms": limit_ms,
        **spread(list(times.values())),
    }


def main() -> None:
    """Run everything and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    refused = {name: partial(advised, problem) for name, problem in refusals().items()}
    explained = {name: partial(explain, problem) for name, problem in shipped().items()}
    report = {
        "refusals": report_of(interleaved(refused, rounds), REFUSAL_MS),
        "remedies": {name: job() for name, job in refused.items()},
        "break_points": report_of(interleaved(explained, rounds), BREAK_POINTS_MS),
    }
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
