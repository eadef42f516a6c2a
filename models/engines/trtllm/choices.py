"""What a deployer of TensorRT-LLM may change, tried one by one: each as the flags to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.alternatives import Choice, halves, on_more_ranks
from kvplan.models.engines.trtllm.flags import requests_of
from kvplan.models.problem import Problem

MOST_FREE = Fraction(95, 100)


def labels(problem: Problem) -> dict[str, str]:
    """Fields that a remedy changes, by the flags that change them.

    The first constraint is the longest request beside the others, the second a step of prefill.
    """
    found = {"batches.constraint 0.requests[0].capacity": "--max_seq_len"}
    found["batches.constraint 0.requests[0].fit"] = "--constraint_policy FIT_TO_QUOTA"
    found["batches.constraint 1.requests[0].capacity"] = "--max_num_tokens"
    return found if problem.batches else {}


def choices(settings: Mapping[str, Any]) -> Iterator[Choice]:
    """Flags with the settings that they give, those that cost least first."""
    share = Fraction(settings["free_gpu_memory_fraction"])
    if settings["available"] is None and share < MOST_FREE:
        yield (
            f"--kv_cache_free_gpu_memory_fraction {float(MOST_FREE)}",
            {"free_gpu_memory_fraction": MOST_FREE},
        )
    for requests in halves(requests_of(settings)):
        yield f"--max_batch_size {requests}", {"max_batch_size": requests}
    if settings["kv_cache_dtype"] in ("auto", "bfloat16", "float16"):
        yield "--kv_cache_dtype fp8", {"kv_cache_dtype": "fp8"}
    yield from on_more_ranks(settings, "--tp_size", "tp_size")
