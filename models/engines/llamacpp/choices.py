"""What a deployer of llama.cpp may change, tried one by one: each as the flags to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.models.engines.alternatives import Choice
from kvplan.models.engines.llamacpp.flags import sequences_of
from kvplan.models.problem import Problem

WIDE = ("f16", "bf16", "f32")


def labels(problem: Problem) -> dict[str, str]:
    """Fields that a remedy changes, by the flags that change them.

    --ctx-size holds all sequences: it is the capacity of a request where there is one.
    """
    requests = [request for batch in problem.batches for request in batch.requests]
    return {
        f"batches.context.requests.{request.name}.capacity": "--ctx-size"
        for request in requests
        if request.capacity and request.count == 1
    }


def choices(settings: Mapping[str, Any]) -> Iterator[Choice]:
    """Flags with the settings that they give, those that cost least first."""
    if settings["swa_full"]:
        yield "--no-swa-full", {"swa_full": False}
    if settings["cache_type_k"] in WIDE and settings["cache_type_v"] in WIDE:
        if settings["flash_attn"] != "off":
            both = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}
            yield "--cache-type-k q8_0 --cache-type-v q8_0", both
        yield "--cache-type-k q8_0", {"cache_type_k": "q8_0"}
    if sequences_of(settings) > 1:
        yield "--parallel 1", {"parallel": "1"}
