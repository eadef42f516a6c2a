"""What a deployer of llama.cpp may change, tried one by one: each as the flags to paste."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kvplan.models.engines.alternatives import Choice
from kvplan.models.engines.llamacpp.flags import sequences_of
from kvplan.models.engines.llamacpp.projector import projector_bytes
from kvplan.models.problem import Problem

LEAST_UBATCH = 64
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
    if projector_bytes(settings):
        yield "--no-mmproj-offload", {"mmproj_offload": False}
    if settings["cache_type_k"] in WIDE and settings["cache_type_v"] in WIDE:
        if settings["flash_attn"] != "off":
            both = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}
            yield "--cache-type-k q8_0 --cache-type-v q8_0", both
        yield "--cache-type-k q8_0", {"cache_type_k": "q8_0"}
    if sequences_of(settings) > 1:
        yield "--parallel 1", {"parallel": "1"}


def placement_choices(settings: Mapping[str, Any]) -> Iterator[Choice]:
    """What else makes room for a placement: smaller rows still, and smaller compute buffers."""
    yield from choices(settings)
    if settings["flash_attn"] != "off" and settings["cache_type_k"] != "q4_0":
        both = {"cache_type_k": "q4_0", "cache_type_v": "q4_0"}
        yield "--cache-type-k q4_0 --cache-type-v q4_0", both
    if settings["flash_attn"] == "off":
        yield "--flash-attn on", {"flash_attn": "on"}
    size = int(settings["ubatch_size"])
    while size >= 2 * LEAST_UBATCH and settings["compute_buffer"] is None:
        size //= 2
        yield f"--ubatch-size {size}", {"ubatch_size": size}


def on_the_host(
    settings: Mapping[str, Any], layers: int, fits: Callable[[dict[str, Any]], bool]
) -> Iterator[Choice]:
    """The fewest layers, or layers' experts, on the host with which a start fits.

    Parameters
    ----------
    layers : of the file; the output is one more to leave the card.
    fits : whether changed settings fit; what more on the host makes room for stays so.
    """

    def layers_off(host: int) -> dict[str, Any]:
        return {"n_gpu_layers": str(layers + 1 - host)}

    def experts_off(host: int) -> dict[str, Any]:
        return {"n_cpu_moe": host}

    for flag, most, changes in (
        ("--n-gpu-layers", layers + 1, layers_off),
        ("--n-cpu-moe", layers, experts_off),
    ):
        least = _least(most, changes, fits)
        if least is not None:
            (value,) = changes(least).values()
            yield f"{flag} {value}", changes(least)


def _least(
    most: int, changes: Callable[[int], dict[str, Any]], fits: Callable[[dict[str, Any]], bool]
) -> int | None:
    """The smallest number whose changes fit; None where not even the largest does."""
    least = bisect_left(range(most + 1), True, key=lambda number: fits(changes(number)))
    return least if least <= most else None
