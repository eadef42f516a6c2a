"""What of a model lies on the device: layers, their caches, and single tensors (llama-model.cpp).

With L layers and -ngl N the layers from L + 1 - N on are on the device, the output is the last to
go; the embedding stays on the host. A layer's cache lies where the layer does, unless -nkvo keeps
them all on the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.layers import Architecture
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

EVERYTHING = ("auto", "all", "-1", "-2")
EXPERTS, DENSE = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps", r"\.ffn_(up|down|gate)\."
_LAYER = re.compile(r"blk\.(\d+)\.")


def first_layer(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """First layer on the device; 0 where all are, L + 1 where not even the output is.

    Raises
    ------
    InvalidProblem : --n-gpu-layers is no count.
    """
    word = settings["n_gpu_layers"]
    if word is None or str(word) in EVERYTHING:
        return 0
    if not str(word).isdecimal():
        raise InvalidProblem.at("--n-gpu-layers", "a count of layers, auto or all", shown(word))
    return max(0, layer_count(architecture) + 1 - int(word))


def layer_count(architecture: Architecture) -> int:
    """Layers of the file, next-token layers included (block_count)."""
    return architecture.total_layers + len({layer.index for layer in architecture.draft})


def first_cached(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """First layer whose cache lies on the device."""
    if not settings["kv_offload"]:
        return layer_count(architecture) + 1
    return first_layer(architecture, settings)


def device_bytes(architecture: Architecture, settings: Mapping[str, Any], weights: Weights) -> int:
    """Bytes of the weights on the device, tensor by tensor."""
    start, last = first_layer(architecture, settings), layer_count(architecture)
    rules = _overrides(settings)
    tied = "output.weight" not in weights.tensors
    total = 0
    for name, count in weights.tensors.items():
        rule = next((place for pattern, place in rules if pattern.search(name)), None)
        match = _LAYER.match(name)
        layer = int(match[1]) if match else (-1 if "token_embd" in name else last)
        on_device = layer >= start if rule is None else rule
        total += count if on_device else 0
        if tied and name == "token_embd.weight" and start <= last:
            total += count  # the output reads a copy of the embedding
    return total


def _overrides(settings: Mapping[str, Any]) -> list[tuple[re.Pattern[str], bool]]:
    """Patterns with whether their tensors go to the device, in the order that is tried.

    Raises
    ------
    InvalidProblem : --override-tensor is no pattern=buffer.
    """
    rules: list[tuple[re.Pattern[str], bool]] = []
    for text in settings["override_tensor"] or ():
        for entry in str(text).split(","):
            pattern, equals, place = entry.rpartition("=")
            try:
                rules.append((re.compile(pattern), not place.upper().startswith("CPU")))
            except re.error as error:
                raise InvalidProblem.at("--override-tensor", "a pattern", str(error)) from None
            if not equals:
                raise InvalidProblem.at("--override-tensor", "pattern=buffer", shown(text))
    if settings["cpu_moe"]:
        rules.append((re.compile(EXPERTS), False))
    for key, pattern in (("n_cpu_moe", EXPERTS), ("n_cpu_ffn", DENSE)):
        count = int(settings[key])
        rules += [(re.compile(rf"blk\.{index}{pattern}"), False) for index in range(count)]
    return rules
