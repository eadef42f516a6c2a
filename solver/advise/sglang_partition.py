"""The partition of a pipeline under which SGLang's poorest stage holds the most tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.checkpoint.stage_weights import StageWeights, even_weights
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.budget import rank_entries, weights_of
from kvplan.models.engines.sglang.cells import has_window_pool, layer_bytes, stage_counts
from kvplan.models.engines.sglang.compressed import is_compressed
from kvplan.models.engines.sglang.figures import figures
from kvplan.models.engines.sglang.launch.flags import FLAGS
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.pools import build
from kvplan.models.engines.sglang.state_slots import recurrent_layers
from kvplan.models.errors import Infeasible, InvalidProblem
from kvplan.models.ranks import Rank
from kvplan.solver.advise.advice import Advice
from kvplan.solver.place.search.pipeline_stages import Stages, best_partition
from kvplan.solver.solve.plan import plan

LEFT_OUT = (
    "speed: the stage with the most layers paces the pipeline",
    "memory that the engine takes from its poorest rank for all stages",
)
ESTIMATED = "layers are taken to be alike (a folder with the weights' tensors knows better)"
FLAG = "SGLANG_PP_LAYER_PARTITION="


def is_pipeline(architecture: Architecture, settings: Mapping[str, Any]) -> bool:
    """Whether a partition is to be chosen: stages without one, and one pool of tokens."""
    if int(settings["pp_size"]) < 2 or settings["pp_layer_partition"] is not None:
        return False
    apart = has_window_pool(architecture, settings) or recurrent_layers(architecture)
    return not (apart or is_compressed(architecture))


def optimize(architecture: Architecture, settings: Settings, mean_tokens: int) -> Advice:
    """Find the partition whose poorest stage holds the most pages of tokens.

    Raises
    ------
    InvalidProblem : nothing says how many bytes a layer takes.
    """
    known = resolve(architecture, settings)
    weights = _layer_weights(architecture, known)
    tokens, rows = _tried(architecture, settings)
    more, after, flags = tokens, rows, dict[str, str]()
    best = best_partition(_stages(architecture, known, weights))
    if best is not None and best.blocks * int(known["page_size"]) > tokens:
        changes = _moved(architecture, known, weights, best.layers)
        given = {key: settings[key] for key in settings.given}
        more, after = _tried(architecture, Settings(FLAGS, given | changes))
        flags = {FLAG + changes["pp_layer_partition"]: ""}
    counts = (tokens // mean_tokens, more // mean_tokens)
    left_out = (*LEFT_OUT, *((ESTIMATED,) if weights.is_estimated else ()))
    return Advice(flags, rows, after, counts, counts[1], left_out)


def _layer_weights(architecture: Architecture, settings: Mapping[str, Any]) -> StageWeights:
    """Weights by layer on one rank: by tensor, else alike from --weights-gib."""
    known, each = weights_of(architecture, settings), settings.get("weights_bytes")
    if known is not None:
        return known
    if each is None:
        expected = "the weights' tensors beside the config, or --weights-gib"
        raise InvalidProblem.at("--optimize", expected, "no bytes of a layer")
    total = int(each) * int(settings["pp_size"])
    return even_weights(total, architecture, int(settings["tp_size"]))


def _stages(
    architecture: Architecture, settings: Mapping[str, Any], weights: StageWeights
) -> Stages:
    """The pipeline as it is: what is available moves with the layers."""
    column = [0] * architecture.total_layers
    for layer in architecture.target:
        column[layer.index] += layer_bytes(layer, architecture, settings)
    page = int(settings["page_size"])
    held = weights.on(stage_counts(architecture, settings))
    return Stages(
        layer_bytes=weights.layers,
        columns=(tuple(page * each for each in column),),
        limits=tuple(
            quota + count
            for quota, count in zip(_quotas(architecture, settings), held, strict=True)
        ),
        first=weights.first,
        last=weights.last,
        anchors=tuple(sorted({layer.index for layer in architecture.target})),
    )


def _quotas(architecture: Architecture, settings: Mapping[str, Any]) -> list[int]:
    entries = rank_entries(architecture, settings)
    return [Rank.model_validate(entry).quota_bytes for entry in entries]


def _moved(
    architecture: Architecture,
    settings: Mapping[str, Any],
    weights: StageWeights,
    layers: tuple[int, ...],
) -> dict[str, Any]:
    """Settings of another partition, with what it leaves on each stage."""
    before, after = weights.on(stage_counts(architecture, settings)), weights.on(layers)
    quotas = zip(_quotas(architecture, settings), before, after, strict=True)
    return {
        "pp_layer_partition": ",".join(map(str, layers)),
        "available": tuple(quota + old - new for quota, old, new in quotas),
    }


def _tried(architecture: Architecture, settings: Settings) -> tuple[int, dict[str, str]]:
    """Tokens that the engine's own rules hold, and the rows of the table."""
    known = resolve(architecture, settings)
    rows = {"layers a stage": ",".join(map(str, stage_counts(architecture, known)))}
    try:
        problem = build(architecture, settings)
        answer = plan(problem)
    except (Infeasible, InvalidProblem):
        return 0, rows | {"max_total_num_tokens": "refused by the engine"}
    printed = figures(architecture, settings, problem, answer)
    tokens = int(printed["max_total_num_tokens"])
    shown = {"pages": str(tokens // int(known["page_size"]))}
    return tokens, rows | shown | {"max_total_num_tokens": printed["max_total_num_tokens"]}
