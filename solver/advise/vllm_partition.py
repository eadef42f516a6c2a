"""The partition of a pipeline under which vLLM's poorest stage holds the most blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.checkpoint.stage_weights import StageWeights, even_weights
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.launch.server import Server, weights_of
from kvplan.solver.place.search.pipeline_stages import Stages, best_partition


def moved(
    architecture: Architecture, settings: Mapping[str, Any], server: Server
) -> dict[str, Any]:
    """Settings of the best partition; empty where the server's own is as good, or nothing moves.

    What is available moves with the layers: a stage has what it had, more by the layers that it
    gives away and less by those that it takes.
    """
    weights = layer_weights(architecture, settings, server)
    if weights is None or server.override_blocks is not None:
        return {}
    best = best_partition(stages_of(server, weights))
    if best is None or best.blocks <= server.block_count:
        return {}
    before, after = weights.on(server.counts), weights.on(best.layers)
    return {
        "pp_layer_partition": ",".join(map(str, best.layers)),
        "available": tuple(
            worker.quota_bytes + before[worker.stage] - after[worker.stage]
            for worker in server.workers
        ),
    }


def layer_weights(
    architecture: Architecture, settings: Mapping[str, Any], server: Server
) -> StageWeights | None:
    """Weights by layer on one rank: by tensor, else alike from --weights-gib; None of one stage."""
    if len(server.counts) < 2 or settings["pp_layer_partition"] is not None:
        return None
    known, each = weights_of(architecture, settings), settings.get("weights_bytes")
    if known is not None or each is None:
        return known
    ranks = max(1, int(settings["tensor_parallel_size"]))
    return even_weights(int(each) * len(server.counts), architecture, ranks)


def stages_of(server: Server, weights: StageWeights) -> Stages:
    """Write a server's pipeline: a column of block bytes for each group of its layout."""
    layers = sum(server.counts)
    columns = [[0] * (layers + 1) for _ in server.layout.groups]
    for column, group in zip(columns, server.layout.groups, strict=True):
        for position, spec in zip(group.layers, group.specs, strict=True):
            column[server.owners[position]] += spec.page_bytes
    held = weights.on(server.counts)
    limits = [
        min(w.quota_bytes for w in server.workers if w.stage == stage) + held[stage]
        for stage in range(len(server.counts))
    ]
    return Stages(
        layer_bytes=weights.layers,
        columns=tuple(tuple(column[:layers]) for column in columns),
        limits=tuple(limits),
        first=weights.first,
        last=weights.last,
        draft_columns=tuple(column[layers] for column in columns),
        anchors=tuple(sorted({owner for owner in server.owners if owner < layers})),
    )
