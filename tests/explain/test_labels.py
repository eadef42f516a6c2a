"""A caller's flags in what people read: a plain problem file may carry them."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible
from kvplan.models.reading.paths import flags_at
from kvplan.solver import plan
from support.micro import micro

LABELS = {
    "batches.chat.requests.long.capacity": "--max-model-len",
    "batches.chat.requests.long.count": "--max-num-seqs",
    "batches.chat.requests.long.fit": "--max-model-len auto",
    "ranks.*.memory.utilization": "--gpu-memory-utilization",
    "prefill.requested": "--max-num-batched-tokens",
    "prefill.min": "--least-chunk",
    "experts.max_slots": "--slots",
    "choices.way": "--way",
    "pools.p.max_blocks": "--most-blocks",
}


def labelled(quota: int = 100, request: dict[str, Any] | None = None, **sections: Any) -> Any:
    """Blocks of 4 tokens and 10 bytes, one request of 100 tokens, and flags for its fields."""
    asked = {"name": "long", "capacity": 100, **(request or {})}
    batches = [{"name": "chat", "requests": [asked]}]
    return micro(quota, batches=batches, labels=LABELS, **sections)


def test_a_field_has_its_flags_and_those_below_it() -> None:
    problem = labelled()
    request = "batches.chat.requests.long"
    assert flags_at(problem, f"{request}.capacity") == " (--max-model-len)"
    assert flags_at(problem, request) == " (--max-model-len, --max-num-seqs)"
    assert flags_at(problem, "batches.chat.requests.longer") == ""
    assert flags_at(problem, f"{request}.fit") == ""  # several words: a value of its own


def test_notes_name_the_flag() -> None:
    problem = labelled(
        60,
        {"fit": "capacity"},
        prefill={
            "requested": 9,
            "min": 1,
            "staging": [{"name": "s", "per_token": 10}],
        },
        experts={"slot_bytes": 30, "max_slots": 4},
        choices=[
            {"name": "way", "options": [{"name": "a", "bytes": 90}, {"name": "b", "bytes": 0}]}
        ],
    )
    assert [note.partition(": ")[0] for note in plan(problem).notes[:4]] == [
        "capacity:long (--max-model-len)",
        "choice:way (--way)",
        "prefill (--max-num-batched-tokens)",
        "experts (--slots)",
    ]


def test_remedies_and_conflicts_name_the_flags() -> None:
    memory = {"total": 200, "utilization": "1/2"}
    problem = labelled(ranks=[{"name": "gpu", "memory": memory}])
    with pytest.raises(Infeasible) as caught:
        plan(problem)
    texts = {claim.kind: claim.text for claim in caught.value.conflict}
    assert texts["request"] == "request long: 100 tokens (--max-model-len, --max-num-seqs)"
    assert texts["quota"] == "quota of rank gpu: 100 B (--gpu-memory-utilization)"
    remedies = {remedy.change: remedy.text for remedy in caught.value.remedies}
    capacity = remedies["batches.chat.requests.long.capacity"]
    assert capacity.startswith("--max-model-len 40 (")


def test_a_limit_names_its_flag() -> None:
    problem = labelled(1000, pools=[{"name": "p", "bytes": 10, "max_blocks": 3}])
    with pytest.raises(Infeasible) as caught:
        plan(problem)
    texts = {claim.kind: claim.text for claim in caught.value.conflict}
    assert texts["pool limit"] == "pool p: at most 3 usable blocks (--most-blocks)"
