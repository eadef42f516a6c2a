"""Plans and refusals built by hand, to test what is drawn without solving anything."""

from __future__ import annotations

from typing import Any

from kvplan.models import Infeasible, Plan, Shortfall
from kvplan.models.plan import RankPlan

GIB = 2**30


def rank_plan(
    name: str = "r0", quota: int = 16 * GIB, kv: int = 6 * GIB, **fields: Any
) -> RankPlan:
    """A rank with one pool, one consumer of 1 GiB and 2 GiB of staging."""
    arena, staging = GIB, 2 * GIB
    decode = kv + arena
    ledger = (
        {"consumer": "kv", "bytes": kv, "source": "solved", "phases": ("prefill", "decode")},
        {
            "consumer": "arena",
            "bytes": arena,
            "source": "declared",
            "phases": ("load", "prefill", "decode"),
        },
        {"consumer": "buffers", "bytes": staging, "source": "estimated", "phases": ("prefill",)},
    )
    rank = {
        "name": name,
        "quota": quota,
        "used": decode + staging,
        "slack": quota - decode - staging,
        "bound": "declared",
        "phases": {"load": arena, "prefill": decode + staging, "decode": decode},
        "ledger": ledger,
    }
    return RankPlan.model_validate({**rank, **fields})


def plan_of(*ranks: RankPlan, **fields: Any) -> Plan:
    """An optimal plan over these ranks (one of 16 GiB by default)."""
    entry = ranks or (rank_plan(),)
    request = {
        "batch": "one",
        "name": "long",
        "capacity": 10_688,
        "history": 10_687,
        "count": 1,
        "requested": {"capacity": 65_536, "history": 65_535, "count": 1},
        "reduced": True,
    }
    proof = {
        "solver": "cp-sat",
        "status": "optimal",
        "bound": [{"goal": "capacity:long", "value": 10_688, "bound": 10_688}],
        "certificate": "cp-sat+nested",
        "deterministic_time": 0.25,
    }
    plan = {
        "status": "optimal",
        "blocks": {"kv": 3072},
        "floors": {"kv": 668},
        "prefill_chunk": 8192,
        "expert_slots": 760,
        "expert_slots_in_prefill": 129,
        "choices": {"scratch": "tiled"},
        "copies": 3,
        "requests": [request],
        "ranks": entry,
        "binding": [
            {
                "rank": entry[0].name,
                "phase": "prefill",
                "slack": entry[0].slack,
                "next": {"blocks:kv": 2 * 2**20, "prefill": 64 * 2**20},
            }
        ],
        "notes": ["prefill: requested 24576, clamped to 8192: rank r0 is short in prefill"],
        "proof": proof,
        "digest": "0123456789abcdef" * 4,
    }
    return Plan.model_validate({**plan, **fields})


def refusal(*ranks: RankPlan) -> Infeasible:
    """A refusal: rank r0 of 8 GiB lacks 1 GiB in prefill."""
    entry = ranks or (rank_plan(quota=8 * GIB),)
    short = [Shortfall(rank.name, "prefill", -rank.slack) for rank in entry if rank.slack < 0]
    lines = [f"rank {rank}: short by {count} B in {phase}" for rank, phase, count in short]
    return Infeasible(lines, short, entry)
