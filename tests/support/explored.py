"""What a row of a table must say, read off a plan that was solved on its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver import plan

RICH: dict[str, Any] = {
    "ranks": [
        {"name": "r0", "stage": 0, "quota": "60MiB"},
        {
            "name": "r1",
            "stage": 1,
            "memory": {"total": "80MiB", "utilization": 0.9, "other": {"lora": "1MiB"}},
        },
    ],
    "resume_utilization": 0.97,
    "pools": [
        {"name": "kv", "bytes": {0: 4096, 1: 6144}, "granule": "2MiB", "reserved_blocks": 1},
        {"name": "state", "bytes": 65536, "resume_headroom": False, "max_blocks": 200},
    ],
    "caches": [
        {"name": "full", "pool": "kv", "kind": "full"},
        {"name": "ssm", "pool": "state", "kind": "state", "blocks": 1},
    ],
    "batches": [
        {"name": "long", "requests": [{"name": "one", "capacity": 40000, "fit": "capacity"}]},
        {
            "name": "chat",
            "requests": [{"name": "many", "capacity": 512, "fit": "count", "count": 150}],
        },
    ],
    "prefill": {
        "requested": 2048,
        "min": 256,
        "step": 256,
        "staging": [{"name": "buffers", "per_token": "2.5KiB"}],
    },
    "experts": {
        "slot_bytes": 100000,
        "min_slots": 4,
        "max_slots": 300,
        "lend": {"keep": 4, "fraction": 0.5},
    },
    "choices": [
        {
            "name": "scratch",
            "options": [{"name": "dense", "bytes": "16MiB"}, {"name": "tiled", "bytes": "4MiB"}],
        }
    ],
    "fill": {"batch": "chat"},
}
"""Two ranks, two pools, and something of every kind to decide."""


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain values; None where a row has none."""
    return table.astype(object).where(table.notna(), None).to_dict("records")  # type: ignore[return-value]


def expected_row(problem: Problem) -> dict[str, Any]:
    """Status and every figure of `plan(problem)`, by the table's column names."""
    try:
        answer = plan(problem)
    except Infeasible as refusal:
        return _refused(refusal)
    return _planned(answer)


def _refused(refusal: Infeasible) -> dict[str, Any]:
    row: dict[str, Any] = {"status": "infeasible"}
    worst = sorted(refusal.shortfall, key=lambda short: -short.bytes)[:1]
    for rank, phase, missing in worst:
        row |= {"shortfall": missing, "tightest_rank": rank, "tightest_phase": phase}
    return row


def _planned(answer: Plan) -> dict[str, Any]:
    row: dict[str, Any] = {"status": answer.status}
    row |= {f"blocks:{name}": count for name, count in answer.blocks.items()}
    row |= {f"choice:{name}": option for name, option in answer.choices.items()}
    for request in answer.requests:
        row[f"capacity:{request.name}"] = request.capacity
        row[f"count:{request.name}"] = request.count
    row["prefill"] = answer.prefill_chunk
    row["experts"] = answer.expert_slots
    row["experts_in_prefill"] = answer.expert_slots_in_prefill
    frees = [(rank.slack, rank) for rank in answer.ranks]
    row["slack"] = min(slack for slack, _ in frees)
    tightest = next(rank for slack, rank in frees if slack == row["slack"])
    row["tightest_rank"] = tightest.name
    row["tightest_phase"] = next(p for p, b in tightest.phases.items() if b == tightest.used)
    return row
