"""Experts of ktransformers: the same number of each layer on the card, all of them on the host.

(kt-kernel, --kt-num-gpu-experts; the host keeps a copy of every expert: ktransformers #2084.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings


def experts_of(
    architecture: Architecture, settings: Mapping[str, Any]
) -> dict[int, tuple[int, ...]]:
    """Bytes of each routed expert by layer of the model; empty where no tensors are at hand."""
    listed: Weights | None = settings.get("weights")
    if listed is None:
        return {}
    found = listed.experts_by_layer(architecture.experts)
    return {layer: own for layer, own in found.items() if layer < architecture.total_layers}


def with_host_experts(architecture: Architecture, settings: Settings) -> Settings:
    """Charge the card what stays there: everything but the experts, and N of each layer.

    Without the flag, or without tensors, the settings stay (--weights-gib is what the engine logs).
    The largest experts of a layer are taken to be the ones on the card.
    """
    count, experts = settings["kt_num_gpu_experts"], experts_of(architecture, settings)
    if count is None or not experts:
        return settings
    whole = settings["weights"].total_bytes
    away = sum(sum(sorted(own, reverse=True)[int(count) :]) for own in experts.values())
    changed = Settings((), {**settings, "weights_bytes": -(-(whole - away) // settings.ranks)})
    changed.given, changed.notes, changed.assumed = settings.given, settings.notes, settings.assumed
    return changed
