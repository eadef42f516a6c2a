"""What a deployer of ATOM may change, tried one by one: each as the flags to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.alternatives import Choice, on_more_ranks
from kvplan.models.problem import Problem

SHARE = Fraction(95, 100)


def labels(problem: Problem) -> dict[str, str]:
    """Fields that a remedy changes, by the flags that change them."""
    found = {}
    if any(rank.memory is not None for rank in problem.ranks):
        found["ranks.*.memory.utilization"] = "--gpu-memory-utilization"
    if any(batch.name == "slots" for batch in problem.batches):
        found["batches.slots.requests.slots.count"] = "--max-num-seqs"
    return found


def choices(settings: Mapping[str, Any]) -> Iterator[Choice]:
    """Flags with the settings that they give, those that cost least first."""
    share = settings["gpu_memory_utilization"]
    if share is not None and Fraction(share) < SHARE:
        yield f"--gpu-memory-utilization {float(SHARE)}", {"gpu_memory_utilization": SHARE}
    if settings["kv_cache_dtype"] in ("auto", "bf16"):
        yield "--kv_cache_dtype fp8", {"kv_cache_dtype": "fp8"}
    yield from on_more_ranks(settings, "--tensor-parallel-size", "tensor_parallel_size")
