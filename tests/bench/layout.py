"""Full searches for a page layout: 64 + 8 layers, every kernel multiple up to 8,192 tokens.

    python tests/bench/layout.py

Prints JSON: milliseconds by permission (median of ROUNDS), with candidates and layouts evaluated.
The goal is one second on two cores for each.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.timing import interleaved

from kvplan.models.layouts import LayoutQuestion
from kvplan.solver.layout import layout

ROUNDS = 5
HYBRID: dict[str, Any] = {
    "buckets": [
        {"name": "full", "kind": "full", "layers": 16, "token_bytes": 2048},
        {
            "name": "gdn",
            "kind": "state",
            "layers": 48,
            "state_bytes": 3_350_528,
            "blocks": 2,
            "extra_blocks": 7,
        },
        {
            "name": "draft",
            "kind": "window",
            "layers": 7,
            "token_bytes": 4096,
            "window": 2048,
            "keep": "in_flight",
            "in_flight": 16_384,
            "extra_blocks": 1,
        },
        {"name": "draft full", "kind": "full", "layers": 1, "token_bytes": 4096},
    ],
    "requests": [
        {"capacity": 262_144, "weight": "1/10"},
        {"capacity": 65_536, "weight": "9/10"},
    ],
}
"""48 GDN and 16 full layers, a draft of 7 windows and 1 full layer, a mix of two lengths."""
PERMISSIONS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "uniform, at most 12 groups": {"max_groups": 12},
    "uniform, own pools, shared groups": {"share_groups": True, "own": True},
    "uniform, prefixes of at most 8,192 tokens": {"max_prefix_tokens": 8192},
    "packed": {"pages": "packed"},
    "packed, at most 12 groups": {"pages": "packed", "max_groups": 12},
    "packed, prefixes of at most 8,192 tokens": {"pages": "packed", "max_prefix_tokens": 8192},
    "packed, shared groups": {"pages": "packed", "share_groups": True},
    "packed, own pools, shared groups": {"pages": "packed", "share_groups": True, "own": True},
}


def question(changes: dict[str, Any]) -> LayoutQuestion:
    """The hybrid under some permissions."""
    own = changes.get("own", False)
    rest = {key: value for key, value in changes.items() if key != "own"}
    buckets = [{**bucket, "own_pool": own} for bucket in HYBRID["buckets"]]
    return LayoutQuestion.model_validate({**HYBRID, "buckets": buckets, **rest})


def main() -> None:
    """Time every permission, in turns, each answer with its check, and one whole report."""
    asked = {name: question(changes) for name, changes in PERMISSIONS.items()}
    jobs = {name: partial(layout, each, freedom=False) for name, each in asked.items()}
    times = interleaved(jobs, ROUNDS)
    report = interleaved({"report": partial(layout, asked["uniform"])}, 1)
    rows = {}
    for name, each in asked.items():
        proof = layout(each, freedom=False).proof
        rows[name] = {
            "median_ms": round(times[name], 1),
            "candidates": proof.candidates,
            "evaluated": proof.evaluated,
            "certificate": proof.certificate,
        }
    rows["uniform, with every other permission and fewer groups"] = {
        "median_ms": round(report["report"], 1)
    }
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
